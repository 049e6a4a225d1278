// Package limits_test measures each kind of band against the token bucket on one
// real Redis: see make figures-limits.
package limits_test

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

//go:embed before.lua
var before string

func TestMain(m *testing.M) { testenv.Main(m) }

var (
	quota  = rules.Band{Kind: rules.Quota, Capacity: 10_000, Period: "month"}
	window = rules.Band{Kind: rules.SlidingWindow, Capacity: 1_000, Refill: time.Hour}
	slots  = rules.Band{Kind: rules.Concurrency, Capacity: 1_000, Hold: time.Hour}
)

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	t.Run("speed", func(t *testing.T) { speedFigures(t, report) })
	t.Run("memory", func(t *testing.T) { memoryFigures(t, report) })
}

func speedFigures(t *testing.T, report *figure.Report) {
	server := testenv.StartStandalone(t, testenv.Config{})
	store := redisload.Open(t, server.URI())
	// All buckets outlive the measurement: to expire those of one kind would slow down
	// the kind that is measured next.
	bucket := redisload.Take(t, store, 1, rules.PerDay(1_000))
	kinds := []struct {
		name  string
		bar   float64
		takes redisload.Takes
		ratio []float64
	}{
		{name: "quota", bar: 0.7, takes: redisload.Take(t, store, 1, quota)},
		{name: "sliding-window", bar: 0.4, takes: redisload.Take(t, store, 1, window)},
		{name: "concurrency", bar: 0.3, takes: redisload.Take(t, store, 1, slots)},
	}
	for round := range figure.Rounds(7) + 1 {
		control := redisload.Run(t, bucket.Spread)
		t.Logf("token bucket %.0f/s p99 %v", control.PerSecond, control.P99)
		for i := range kinds {
			k := &kinds[i]
			load := redisload.Run(t, k.takes.Spread)
			t.Logf("%s %.0f/s p99 %v", k.name, load.PerSecond, load.P99)
			if round > 0 { // the first creates the buckets
				k.ratio = append(k.ratio, load.PerSecond/control.PerSecond)
			}
		}
	}
	for i := range kinds {
		report.AtLeast("limits-"+kinds[i].name, figure.MedianOf(kinds[i].ratio), kinds[i].bar, "×")
	}
	report.AtLeast("limits-token-bucket-unchanged", scriptsRatio(t, server), 0.95, "×")
}

func memoryFigures(t *testing.T, report *figure.Report) {
	buckets := figure.Some(1_000_000)
	report.AtMost("limits-bytes-quota", redisload.BytesPerBucket(t, buckets, quota), 200, " B")
	report.AtMost("limits-bytes-sliding-window", redisload.BytesPerBucket(t, buckets, window), 350, " B")
	// The holders have a key of their own: this is one request under way.
	report.AtMost("limits-bytes-concurrency", redisload.BytesPerBucket(t, buckets, rules.Band{Kind: rules.Concurrency, Capacity: 100, Hold: time.Hour}), 500, " B")
}

// scriptsRatio is the speed of the script at token buckets against that of before,
// with the same calls by turns: the lowest of several kinds of calls.
func scriptsRatio(t *testing.T, server *testenv.Server) float64 {
	t.Helper()
	ctx := t.Context()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 10 * time.Second})
	defer func() { _ = client.Close() }()
	old, err := client.ScriptLoad(ctx, before).Result()
	if err != nil {
		t.Fatal(err)
	}
	second := rules.PerSecond(1_000_000)
	lowest := 0.0
	for _, c := range []struct {
		name   string
		rules  int
		bands  []rules.Band
		decide func(take redisload.Takes, ctx context.Context, caller, n int) error
	}{
		{"one band", 1, []rules.Band{second}, redisload.Takes.Spread},
		{"three rules of two bands", 3, []rules.Band{second, rules.PerHour(1_000_000_000)}, redisload.Takes.Spread},
		{"one key", 1, []rules.Band{second}, func(take redisload.Takes, ctx context.Context, caller, _ int) error {
			return take(ctx, caller, 0)
		}},
	} {
		// The first calls are small, before all callers wait.
		calls := redisload.RecordCalls(t, server, 200, func(s store.Store) error {
			take := redisload.Take(t, s, c.rules, c.bands...)
			redisload.Run(t, func(ctx context.Context, caller, n int) error { return c.decide(take, ctx, caller, n) })
			return nil
		})[100:]
		send := func(calls [][]any) func(n int) {
			return func(n int) {
				pipeline := client.Pipeline()
				for i := range n {
					pipeline.Do(ctx, calls[i%len(calls)]...)
				}
				if _, err := pipeline.Exec(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		ratio := figure.Ratio(send(callsBefore(old, calls)), send(calls))
		t.Logf("%s: %.2f× the speed of the script before", c.name, ratio)
		if lowest == 0 || ratio < lowest {
			lowest = ratio
		}
	}
	return lowest
}

// callsBefore returns the calls for the script before: with keys of its own, since it writes
// other values, and with tags that are nothing but the number of the band.
func callsBefore(sha string, calls [][]any) [][]any {
	const header, perBand = 16, 4 + 5*8
	all := make([][]any, len(calls))
	for i, c := range calls {
		c = slices.Clone(c)
		c[1] = sha
		keys, _ := strconv.Atoi(fmt.Sprint(c[2]))
		for k := range keys {
			c[3+k] = fmt.Sprint(c[3+k], "-before")
		}
		input := fmt.Append(nil, c[3+keys])
		pos := header
		for range binary.LittleEndian.Uint16(input[8:]) {
			bands := int(input[pos])
			pos++
			for range bands {
				input[pos+3] = 0
				pos += perBand
			}
		}
		c[3+keys] = string(input)
		all[i] = c
	}
	return all
}
