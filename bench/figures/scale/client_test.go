package scale_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/chaos"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

const clientRules = `
id: api-limits
rules:
  - { id: per-user, limitScope: USER_ID, bands: [{ capacity: 1000000, refill: 1h }] }
`

// clientFigures compares a client whose callers share requests with the same client
// where each check has a request of its own (MaxBatch: 1), at one server process.
func clientFigures(t *testing.T, report *figure.Report) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(clientRules), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := testenv.StartStandalone(t, testenv.Config{})
	server := chaos.StartDaemon(t, "", "redis.uri="+redis.URI(), "redis.timeout=10s", "rules.file="+rules, "mongo.enabled=false")
	shared, single := newCaller(t, server.Addr, 0), newCaller(t, server.Addr, 1)

	var ratios []float64
	for round := range 10 {
		with, without := shared.perSecond(t), single.perSecond(t)
		t.Logf("64 callers: %.0f/s shared, %.0f/s with a request each", with, without)
		if round > 0 { // the first connects
			ratios = append(ratios, with/without)
		}
	}
	report.AtLeast("scale-client-shared", figure.MedianOf(ratios), 4, "×")

	ratios = ratios[:0]
	for range 9 {
		with, without := make([]float64, 500), make([]float64, 500)
		for i := range with { // by turns
			with[i], without[i] = shared.latency(t, i), single.latency(t, i)
		}
		a, b := figure.MedianOf(with), figure.MedianOf(without)
		t.Logf("a lone caller: %.0f µs where callers share, %.0f µs with a request each", a, b)
		ratios = append(ratios, a/b)
	}
	report.AtMost("scale-client-lone", figure.MedianOf(ratios), 1.1, "×")
}

// caller checks requests of many users with one client.
type caller struct{ *client.Client }

func newCaller(t *testing.T, addr string, maxBatch int) caller {
	t.Helper()
	c, err := client.New("http://"+addr, client.Config{MaxBatch: maxBatch, Timeout: 10 * time.Second, OnFailure: rules.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return caller{c}
}

func (c caller) check(ctx context.Context, n int) error {
	d, err := c.Check(ctx, &fluxgate.Request{UserID: "user-" + strconv.Itoa(n%50_000), Method: "GET", Path: "/api/orders"})
	if err == nil && (!d.Allowed || d.Degraded) {
		err = errors.New("a check was not decided by Redis, or refused")
	}
	return err
}

// perSecond is how many checks 64 callers do in a second.
func (c caller) perSecond(t *testing.T) float64 {
	t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for i := range 64 {
		all.Go(func() {
			for n := i; time.Since(start) < time.Second; n += 64 {
				if err := c.check(t.Context(), n); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// latency is the time of one check in microseconds.
func (c caller) latency(t *testing.T, n int) float64 {
	t.Helper()
	start := time.Now()
	if err := c.check(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return float64(time.Since(start)) / float64(time.Microsecond)
}
