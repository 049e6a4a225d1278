package bare_test

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

const (
	callers     = 32
	connections = 4 // as many calls the store has under way to one server
)

// workload is calls of the store for one kind of demand, recorded and repeated.
type workload struct {
	name      string
	calls     [][]any
	rules     int // of each decision
	decisions int // of all calls
	costs     []float64
}

// redisFigures compares the processor time that Redis uses for a decision with that of an
// empty script, which is called with the same keys, arguments and callers.
func redisFigures(t *testing.T, report *figure.Report) {
	server := testenv.StartStandalone(t, testenv.Config{})
	record := func(name string, count int, bands ...rules.Band) *workload {
		w := &workload{name: name, rules: count}
		// The first calls are small, before all callers wait.
		w.calls = redisload.RecordCalls(t, server, 1_200, func(s store.Store) error {
			redisload.RunFor(t, callers, 200*time.Millisecond, redisload.Take(t, s, count, bands...).Spread)
			return nil
		})[200:]
		for _, call := range w.calls {
			keys, err := strconv.Atoi(call[2].(string))
			if err != nil {
				t.Fatal(err)
			}
			w.decisions += keys / count
		}
		return w
	}
	day := rules.PerDay(10_000) // buckets in use, as those of the others: a token comes back in 9 s
	one := record("token bucket", 1, day)
	quota := record("quota", 1, rules.Band{Kind: rules.Quota, Capacity: 1_000_000_000, Period: "month"})
	window := record("sliding window", 1, rules.Band{Kind: rules.SlidingWindow, Capacity: 1_000_000_000, Refill: time.Hour})
	three := record("three rules", 3, day)
	empty := one.withScript(t, server, "empty script", "")

	all := []*workload{empty, one, quota, window, three}
	for round := range figure.Rounds(9) + 1 {
		for _, w := range all {
			if cost := w.cost(t, server); round > 0 { // the first creates the buckets
				w.costs = append(w.costs, cost)
			}
		}
	}
	ratio := func(subject, control *workload) float64 {
		var ratios []float64
		for i := range subject.costs {
			ratios = append(ratios, subject.costs[i]/control.costs[i])
		}
		return figure.MedianOf(ratios)
	}
	report.AtMost("bare-redis-cpu-token-bucket", ratio(one, empty), 1.8, "×")
	report.AtMost("bare-redis-cpu-quota", ratio(quota, one), 1.2, "×")
	report.Print("bare-redis-cpu-window", ratio(window, one), "×")
	report.AtMost("bare-redis-cpu-three-rules", ratio(three, one), 1.6, "×")
	for _, w := range all {
		t.Logf("%s: %.2f µs of Redis for a decision, %.1f decisions for each call",
			w.name, figure.MedianOf(w.costs), float64(w.decisions)/float64(len(w.calls)))
	}
}

// withScript returns the same calls of another script.
func (w *workload) withScript(t *testing.T, server *testenv.Server, name, script string) *workload {
	t.Helper()
	sha, err := server.Do(t.Context(), "SCRIPT", "LOAD", script)
	if err != nil {
		t.Fatal(err)
	}
	other := &workload{name: name, rules: w.rules, decisions: w.decisions}
	for _, call := range w.calls {
		call = slices.Clone(call)
		call[1] = sha
		other.calls = append(other.calls, call)
	}
	return other
}

// cost repeats the calls for a while, and returns the microseconds of Redis for each decision.
func (w *workload) cost(t *testing.T, server *testenv.Server) float64 {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: connections, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	before := load.CPU(t, server.Pid())
	end := time.Now().Add(figure.For(time.Second))
	var sent atomic.Int64
	var all sync.WaitGroup
	for c := range connections {
		all.Go(func() {
			for n := c; time.Now().Before(end); n += connections {
				if err := client.Do(t.Context(), w.calls[n%len(w.calls)]...).Err(); err != nil && err != redis.Nil { //nolint:errorlint // not wrapped
					t.Error(err)
					return
				}
				sent.Add(1)
			}
		})
	}
	all.Wait()
	used := load.CPU(t, server.Pid()) - before
	decisions := float64(sent.Load()) * float64(w.decisions) / float64(len(w.calls))
	return float64(used.Nanoseconds()) / 1_000 / decisions
}
