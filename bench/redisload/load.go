// Package redisload has many callers decide on the Redis store, for the figures
// that measure it.
package redisload

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/calendar"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

const (
	// Callers decide at the same time.
	Callers = 256
	// Keys are how many keys [Place] spreads their decisions over.
	Keys = 100_000

	slice = time.Second
)

// Load is the throughput of one kind of caller.
type Load struct {
	Decisions int
	PerSecond float64
	P99       time.Duration
}

// Run has [Callers] decide for a while. decide is given the number of the
// caller and of its decision.
func Run(t *testing.T, decide func(ctx context.Context, caller, n int) error) Load {
	t.Helper()
	return RunFor(t, Callers, figure.For(slice), decide)
}

// RunFor is [Run] with so many callers, for so long.
func RunFor(t *testing.T, callers int, length time.Duration, decide func(ctx context.Context, caller, n int) error) Load {
	t.Helper()
	latencies := make([][]time.Duration, callers)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := 0; ; n++ {
				began := time.Now()
				if began.Sub(start) > length {
					return
				}
				if err := decide(ctx, caller, n); err != nil {
					t.Error(err)
					return
				}
				latencies[caller] = append(latencies[caller], time.Since(began))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	all := slices.Concat(latencies...)
	if len(all) == 0 {
		t.Fatal("no decision was made")
	}
	slices.Sort(all)
	return Load{Decisions: len(all), PerSecond: float64(len(all)) / elapsed.Seconds(), P99: all[len(all)*99/100]}
}

// Place spreads the decisions of all callers over the keys.
func Place(caller, n int) uint64 { return uint64(caller*7919+n*31) % Keys }

// slots is a concurrency band: its kind has no exported name.
var slots = fluxgate.Must(rules.Band{Kind: rules.Concurrency, Capacity: 1, Hold: time.Second}.Exact(0))

// Takes decides on a store, for one key of one caller.
type Takes func(ctx context.Context, caller int, key uint64) error

// Spread decides for the keys in turn.
func (f Takes) Spread(ctx context.Context, caller, n int) error {
	return f(ctx, caller, Place(caller, n))
}

var config = redisstore.Config{Timeout: 10 * time.Second}

// Open opens a store that is closed when the test ends.
func Open(t *testing.T, uri string) *redisstore.Store {
	t.Helper()
	store, err := redisstore.Open(t.Context(), uri, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// Take decides by rules of so many bands each. Bands of another number or first
// kind have other keys.
func Take(t *testing.T, buckets store.Store, count int, bands ...rules.Band) Takes {
	t.Helper()
	var exact []store.ExactBand
	for i, b := range bands {
		e, err := b.Exact(i)
		if err != nil {
			t.Fatal(err)
		}
		if b.Kind == rules.Quota {
			for j, edge := range calendar.Edges(b.Period, time.UTC, time.Now()) {
				e.Edges[j] = edge.UnixMicro()
			}
		}
		exact = append(exact, e)
	}
	concurrency := slots.Kind
	type own struct {
		demands []store.Demand
		out     store.Outcome
	}
	state := make([]own, Callers)
	for i := range state {
		for r := range count {
			d := store.Demand{Key: store.Key{RuleSet: "figures", Rule: strconv.Itoa(r)}, Bands: exact, Cost: 1}
			// Bands with other numbers have buckets of their own.
			d.Key.ID[15], d.Key.ID[14], d.Key.ID[13] = byte(r), byte(len(bands)), byte(exact[0].Kind)
			binary.BigEndian.PutUint32(d.Key.ID[9:], uint32(exact[0].Capacity))
			state[i].demands = append(state[i].demands, d)
		}
	}
	return func(ctx context.Context, caller int, key uint64) error {
		own := &state[caller]
		for i := range own.demands {
			d := &own.demands[i]
			binary.LittleEndian.PutUint64(d.Key.ID[:], key*0x9e3779b97f4a7c15)
			if d.Bands[0].Kind == concurrency {
				_, _ = rand.Read(d.Holder[:]) // never fails
			}
		}
		return buckets.Take(ctx, own.demands, &own.out)
	}
}
