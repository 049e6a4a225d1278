package trust_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

const (
	callers = 64
	lasts   = time.Minute
	every   = 3 * time.Second
	overlap = 2 * time.Second // both users are valid for this long
)

// rotate changes the user and the password of Redis under callers: the new user is added, the
// files are written, and the old user is deleted. Redis then closes the connections of that
// user. It would not close those with a removed password.
func rotate(t *testing.T, report *figure.Report) {
	redis := testenv.StartStandalone(t, testenv.Config{Users: []testenv.User{{Name: "operator", Password: "operator-password"}}})
	acl := func(args ...any) {
		if _, err := redis.Do(t.Context(), append([]any{"ACL"}, args...)...); err != nil {
			t.Error(err)
		}
	}
	folder := t.TempDir()
	userFile, passwordFile, rulesFile := filepath.Join(folder, "user"), filepath.Join(folder, "password"), filepath.Join(folder, "rules.yaml")
	add := func(n int64) {
		user, password := fmt.Sprint("app-", n), fmt.Sprint("secret-", n)
		acl("SETUSER", user, "on", ">"+password, "~*", "&*", "+@all")
		write(t, userFile, user)
		write(t, passwordFile, password)
	}
	write(t, rulesFile, "id: api-limits\nrules: [{id: each, limitScope: USER_ID, bands: [{capacity: 1000000, refill: 1s}]}]\n")
	add(0)
	url := start(t, "redis.uri=redis://"+redis.Addr(), "redis.username-file="+userFile, "redis.password-file="+passwordFile,
		"redis.leases=off", "rules.file="+rulesFile, "redis.timeout=1s")

	var ended atomic.Bool
	var decided, degraded, rotations int64
	var all sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	for i := range callers {
		all.Go(func() {
			for !ended.Load() {
				atomic.AddInt64(&decided, 1)
				if !byRedis(t, client, url, i) {
					atomic.AddInt64(&degraded, 1)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	for begun := time.Now(); time.Since(begun) < figure.For(lasts); {
		rotations++
		next := time.Now().Add(every)
		add(rotations)
		time.Sleep(overlap)
		acl("DELUSER", fmt.Sprint("app-", rotations-1))
		time.Sleep(time.Until(next))
	}
	ended.Store(true)
	all.Wait()
	t.Logf("%d decisions while the password changed %d times", decided, rotations)
	report.Verdict("trust-rotate-degraded", fmt.Sprintf("%d of %d", degraded, decided), "0", degraded == 0 && decided > 10_000)
}

// byRedis decides a request and reports whether Redis did.
func byRedis(t *testing.T, client *http.Client, url string, caller int) bool {
	res, err := client.Post(url, "application/json", strings.NewReader(fmt.Sprintf(`{"userId":"caller-%d"}`, caller)))
	if err != nil {
		t.Error(err)
		return false
	}
	defer res.Body.Close()
	var d struct{ Allowed, Degraded bool }
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	return !d.Degraded
}

// start runs a server and returns the address of its check API.
func start(t *testing.T, set ...string) string {
	c, err := config.Load(config.Sources{Set: append(set, "server.http=127.0.0.1:0", "server.admin=", "mongo.enabled=false", "server.drain.delay=0s")})
	if err != nil {
		t.Fatal(err)
	}
	app, err := server.New(t.Context(), c, server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + app.Addr("http") + "/v1/check"
}

func write(t *testing.T, file, text string) {
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
