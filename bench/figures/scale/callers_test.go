package scale_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

const zipfCallers = 1_000_000

// callersFigures measure many callers: with a few that ask for most, and with none.
func callersFigures(t *testing.T, report *figure.Report) {
	server := testenv.StartStandalone(t, testenv.Config{})
	leased, strict := openFleet(t, server.URI())
	// The plans of an API, a quarter of the callers each.
	limits := []store.Demand{
		demand(t, 0, rules.PerMinute(100)), demand(t, 0, rules.PerMinute(1_000)),
		demand(t, 0, rules.PerMinute(10_000)), demand(t, 0, rules.PerSecond(1_000)),
	}
	keys := zipfKeys()
	zipf := func(fleet []gateway) float64 {
		takers := newTakers(fleet, redisload.Callers, limits[0])
		var decisions atomic.Int64
		before := calls(fleet)
		load := redisload.Run(t, func(ctx context.Context, i, n int) error {
			c, key := &takers[i], keys[(i*7919+n)%len(keys)]
			c.demands[0] = limits[key%4]
			setKey(&c.demands[0], key)
			decisions.Add(1)
			_, err := c.take(ctx)
			return err
		})
		t.Logf("%.0f %% of the decisions asked the store", 100*float64(calls(fleet)-before)/float64(decisions.Load()))
		return load.PerSecond
	}
	report.AtLeast("scale-zipf-throughput", interleaved(t, "Zipf 1.1", 8, func() float64 { return zipf(leased) }, func() float64 { return zipf(strict) }), 2, "×")

	cold := func(fleet []gateway) float64 {
		takers := newTakers(fleet, redisload.Callers, demand(t, 0, rules.PerHour(1_000)))
		return 1 / redisload.RunFor(t, redisload.Callers, 200*time.Millisecond, func(ctx context.Context, i, n int) error {
			setKey(&takers[i].demands[0], zipfCallers+redisload.Place(i, n))
			_, err := takers[i].take(ctx)
			return err
		}).PerSecond
	}
	report.AtMost("scale-cold-overhead", interleaved(t, "cold", 80, func() float64 { return cold(leased[:1]) }, func() float64 { return cold(strict[:1]) }), 1.05, "×")
}

// interleaved is the median ratio of two measurements that run by turns.
func interleaved(t *testing.T, what string, rounds int, subject, control func() float64) float64 {
	t.Helper()
	var ratios []float64
	for round := range figure.Rounds(rounds) + 1 {
		a, b := subject(), control()
		t.Logf("%s: %.4g with leases, %.4g without", what, a, b)
		if round > 0 { // the first creates the buckets
			ratios = append(ratios, a/b)
		}
	}
	return figure.MedianOf(ratios)
}

// zipfKeys are callers with frequencies by Zipf's law.
func zipfKeys() []uint64 {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.1, 1, zipfCallers-1)
	keys := make([]uint64, 1<<21)
	for i := range keys {
		keys[i] = zipf.Uint64()
	}
	return keys
}
