package scale_test

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
)

const fleetSize = 8

// gateway is one of a fleet on one Redis.
type gateway struct {
	store.Store
	calls *counted // those that reach the shared store
}

// counted counts the calls to a store.
type counted struct {
	store.Store
	takes atomic.Int64
}

func (c *counted) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	c.takes.Add(1)
	return c.Store.Take(ctx, demands, out)
}

// openFleet opens gateways, each with its own connections: with leases, and the same
// without.
func openFleet(t *testing.T, uri string) (leased, strict []gateway) {
	t.Helper()
	for range fleetSize {
		shared := &counted{Store: redisload.Open(t, uri)}
		strict = append(strict, gateway{shared, shared})
		leased = append(leased, gateway{lease.New(shared, lease.Config{}), shared})
	}
	deadline := time.Now().Add(time.Minute)
	for shared := strict[0].calls; shared.Gateways() < fleetSize; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the gateways see %d of %d", shared.Gateways(), fleetSize)
		}
	}
	return leased, strict
}

func calls(fleet []gateway) (n int64) {
	for _, g := range fleet {
		n += g.calls.takes.Load()
	}
	return n
}

// demand is one for a token of the bucket of a name.
func demand(t *testing.T, name uint64, band rules.Band) store.Demand {
	t.Helper()
	exact, err := band.Exact(0)
	if err != nil {
		t.Fatal(err)
	}
	d := store.Demand{Key: store.Key{RuleSet: "scale", Rule: "rule"}, Bands: []store.ExactBand{exact}, Cost: 1}
	setKey(&d, name)
	return d
}

func setKey(d *store.Demand, name uint64) {
	binary.LittleEndian.PutUint64(d.Key.ID[:], (name+1)*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(d.Key.ID[8:], name)
}

// taker decides on its gateway with memory of its own.
type taker struct {
	store   store.Store
	demands [1]store.Demand
	out     store.Outcome
}

func newTakers(fleet []gateway, n int, d store.Demand) []taker {
	takers := make([]taker, n)
	for i := range takers {
		takers[i].store, takers[i].demands[0] = fleet[i%len(fleet)], d
	}
	return takers
}

// take reports whether a request is admitted.
func (c *taker) take(ctx context.Context) (bool, error) {
	err := c.store.Take(ctx, c.demands[:], &c.out)
	return c.out.Admitted(), err
}

// paced has one caller of each gateway send requests at even rates, and returns the
// moments of admissions after start, in order of each gateway.
func paced(t *testing.T, fleet []gateway, d store.Demand, perSecond []float64, during time.Duration, stopped func(gateway int, now time.Duration) bool) [][]time.Duration {
	t.Helper()
	admitted := make([][]time.Duration, len(fleet))
	takers := newTakers(fleet, len(fleet), d)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range takers {
		wg.Go(func() {
			for sent := 0; ; time.Sleep(time.Millisecond) {
				now := time.Since(start)
				if now >= during || stopped != nil && stopped(i, now) {
					return
				}
				for due := int(perSecond[i] * now.Seconds()); sent < due; sent++ {
					ok, err := takers[i].take(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if ok {
						admitted[i] = append(admitted[i], time.Since(start))
					}
				}
			}
		})
	}
	wg.Wait()
	return admitted
}
