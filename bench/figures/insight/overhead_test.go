package insight_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store/memstore"
)

const users = 10_000

// bodies are checks of users of whom few are busy and most are not.
func bodies() []string {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, users-1)
	all := make([]string, 1<<16)
	for i := range all {
		all[i] = fmt.Sprintf(`{"userId":"user-%d","path":"/orders"}`, zipf.Uint64())
	}
	return all
}

// overhead compares the time of checks over HTTP with insight and without it, by turns on
// two servers in memory.
func overhead(t *testing.T, report *figure.Report) {
	t.Helper()
	on, off := serve(t, true), serve(t, false)
	sent := bodies()
	const requests, callers = 20_000, 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	for _, url := range []string{on, off} { // warm up
		load(t, client, url, sent, requests, callers)
	}
	ratio := figure.Median(15, func() float64 {
		with, without := time.Duration(0), time.Duration(0)
		for range 4 {
			with += load(t, client, on, sent, requests/4, callers)
			without += load(t, client, off, sent, requests/4, callers)
		}
		return float64(with) / float64(without)
	})
	report.AtMost("insight-http-overhead", ratio, 1.03, "×")
}

// serve starts a server with one rule, in memory, and returns the URL of its checks.
func serve(t *testing.T, on bool) string {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	do(t, os.WriteFile(rules, []byte("id: api-limits\nrules: [{id: per-user, limitScope: USER_ID, bands: [{capacity: 100, refill: 1s}]}]\n"), 0o600))
	c, err := config.Load(config.Sources{Set: []string{
		"server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "server.drain.delay=0s", "redis.enabled=false", "mongo.enabled=false",
		"rules.file=" + rules, fmt.Sprint("telemetry.insight=", on),
	}})
	do(t, err)
	app, err := server.New(t.Context(), c, server.Options{Logger: slog.New(slog.DiscardHandler)})
	do(t, err)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(t.Context()) }()
	t.Cleanup(func() { do(t, <-ended) })
	return "http://" + app.Addr("http") + "/v1/check"
}

// load is the time of so many checks.
func load(t *testing.T, client *http.Client, url string, bodies []string, requests, callers int) time.Duration {
	t.Helper()
	start := time.Now()
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range requests / callers {
				response, err := client.Post(url, "application/json", strings.NewReader(bodies[(caller*4_096+i)%len(bodies)]))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("answers %d", response.StatusCode)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// allocations compares the allocations of a decision that is recorded with those of one
// that is not.
func allocations(t *testing.T, report *figure.Report) {
	t.Helper()
	perCheck := func(observer func(func() *fluxgate.Engine) fluxgate.Observer) float64 {
		set, err := rules.NewSet("api", rules.Rule{ID: "per-user", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerSecond(100)}})
		do(t, err)
		store, err := memstore.New(memstore.Config{})
		do(t, err)
		defer func() { do(t, store.Close()) }()
		var engine *fluxgate.Engine
		engine, err = fluxgate.New(store, fluxgate.Static(set), fluxgate.WithObserver(observer(func() *fluxgate.Engine { return engine })))
		do(t, err)
		reqs := make([]fluxgate.Request, users)
		for i := range reqs {
			reqs[i].UserID = fmt.Sprint("user-", i)
		}
		i := 0
		check := func() {
			_, err := engine.Check(t.Context(), &reqs[i%users])
			do(t, err)
			i++
		}
		for range 2 * users { // buckets and lists are there
			check()
		}
		return testing.AllocsPerRun(5*users, check)
	}
	off := perCheck(func(func() *fluxgate.Engine) fluxgate.Observer { return telemetry.New(telemetry.Config{}) })
	on := perCheck(func(engine func() *fluxgate.Engine) fluxgate.Observer {
		return telemetry.New(telemetry.Config{RuleSet: "api", Recorder: insight.NewRecorder(insight.RecorderConfig{Engine: engine, RuleSet: "api"})})
	})
	report.AtMost("insight-allocations", on-off, 0, "")
}
