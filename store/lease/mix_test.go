package lease_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// class are callers of a bucket who send requests of one cost, to all gateways.
type class struct {
	cost           int64
	perSecond      int
	vetoed         bool // another limit refuses them
	sent, admitted int64
}

// anyMix returns a bucket and callers who want from a tenth to 20 times of what it gives.
func anyMix(r *rand.Rand) (rules.Band, []class) {
	rate := []int64{100, 200, 400, 1_000, 4_000}[r.IntN(5)]
	band := rules.Band{Capacity: rate * []int64{1, 1, 2, 10}[r.IntN(4)], RefillTokens: rate, Refill: time.Second}
	classes := make([]class, 2+r.IntN(2))
	for i := range classes {
		c := &classes[i]
		c.cost = [][]int64{{1, 1, 1, 2}, {10, 20, 50, rate / 5}, {1, 5, 50, rate / 2}}[i][r.IntN(4)]
		c.vetoed = i == 2 && r.IntN(2) == 0
		wanted := float64(rate) * []float64{.1, .3, .6, 2, 20}[r.IntN(5)]
		c.perSecond = max(5, int(wanted)/int(c.cost))
	}
	return band, classes
}

// gatewaysOf is a store that says how many gateways use it.
type gatewaysOf struct {
	store.Store
	gateways int
}

func (g gatewaysOf) Gateways() int { return g.gateways }

// play sends the requests of some seconds, which are the same for a seed.
func play(t *testing.T, gateways int, band rules.Band, classes []class, leases bool, seed uint64) []class {
	const seconds, perSecond = 10, 5_000
	classes = append([]class(nil), classes...)
	clock, r := storetest.NewClock(), rand.New(rand.NewPCG(seed, 20))
	shared := gatewaysOf{fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now})), gateways}
	fleet := make([]store.Store, gateways)
	for i := range fleet {
		if fleet[i] = shared; leases {
			fleet[i] = lease.New(shared, lease.Config{Now: clock.Now, Go: func(call func()) { call() }})
		}
	}
	own := demand("own", 1, rules.PerDay(1))
	if seed%2 == 0 {
		own.Strict = true
	}
	var out store.Outcome
	for range seconds * perSecond {
		for i := range classes {
			c := &classes[i]
			for due := c.perSecond; due > 0; due -= perSecond {
				if r.IntN(perSecond) >= due {
					break
				}
				demands := []store.Demand{demand("shared", c.cost, band), own}
				if !c.vetoed {
					demands = demands[:1]
				}
				if err := fleet[r.IntN(gateways)].Take(t.Context(), demands, &out); err != nil {
					t.Fatal(err)
				}
				c.sent++
				if out.Admitted() {
					c.admitted++
				}
			}
		}
		clock.Advance(time.Second / perSecond)
	}
	return classes
}

// Requests of all costs share a bucket about as without leases, whatever is refused: nine
// tenths of its tokens are used, and no caller gets less than three quarters. A bucket
// that is overloaded prefers low costs, since it rarely has enough for a high one. Leases
// need not: a caller gets its part of what all want.
func TestLease_Mixes(t *testing.T) {
	for seed := range uint64(12) {
		gateways := []int{1, 2, 8}[seed%3]
		band, classes := anyMix(rand.New(rand.NewPCG(seed, 21)))
		strict, leased := play(t, gateways, band, classes, false, seed), play(t, gateways, band, classes, true, seed)
		var sent, want, got int64
		for i, c := range strict {
			if !c.vetoed {
				sent, want, got = sent+c.sent*c.cost, want+c.admitted*c.cost, got+leased[i].admitted*c.cost
			}
		}
		if got < want*9/10 {
			t.Errorf("seed %d: %d gateways spend %d of %d tokens of %+v: %+v, strict %+v", seed, gateways, got, want, band, leased, strict)
		}
		for i, c := range leased {
			if part := min(strict[i].admitted, c.sent*want/sent); !c.vetoed && c.admitted < part*3/4-2 {
				t.Errorf("seed %d: %d gateways admit %d of %d requests of cost %d from %+v: %+v, strict %+v", seed, gateways, c.admitted, part, c.cost, band, leased, strict)
			}
		}
	}
}

// Callers over their own limit, however many their requests are and whatever they cost,
// take nothing from callers who share another limit with them and make few requests.
func TestLease_RefusedFlood(t *testing.T) {
	const gateways, perSecond, during = 4, 45, 3 * time.Second
	for _, cost := range []int64{1, 2} {
		onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
			shared := demand("a", 1, rules.Band{Capacity: 400, RefillTokens: 200, Refill: time.Second})
			costly, own := shared, demand("b", 1, rules.PerHour(1))
			costly.Cost, own.Strict = cost, true
			f.take(f.Store, own)
			var flood, callers sync.WaitGroup
			var ended atomic.Bool
			var admitted atomic.Int64
			for range gateways {
				s := gateway()
				for range 16 {
					flood.Go(func() {
						for ; !ended.Load(); time.Sleep(100 * time.Microsecond) {
							f.take(s, costly, own)
						}
					})
				}
				callers.Go(func() { admitted.Add(f.load(s, shared, perSecond, during)) })
			}
			callers.Wait()
			ended.Store(true)
			flood.Wait()
			if sent := int64(gateways * perSecond * during / time.Second); admitted.Load() < sent*95/100 {
				t.Errorf("cost %d: %d of %d requests are admitted, %d tokens were taken", cost, admitted.Load(), sent, f.taken.Load())
			}
		})
	}
}
