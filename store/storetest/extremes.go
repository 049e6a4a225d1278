package storetest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var extremeChecks = []Check{
	{"costs up to the largest are decided and settled exactly", largestCosts},
	{"costs above the largest are refused, and nothing changes", costsAboveLargest},
}

// extremeBands are bands of each kind, with few tokens and with the most.
func extremeBands() map[string]rules.Band {
	return map[string]rules.Band{
		"few tokens":    band("", 5, 1, 24*time.Hour),
		"many tokens":   band("", 1_000_000_000_000, 1_000_000, time.Second),
		"few counted":   {Kind: rules.Quota, Capacity: 5, Period: "month"},
		"many counted":  {Kind: rules.Quota, Capacity: 1_000_000_000_000_000, Period: "month"},
		"few recently":  {Kind: rules.SlidingWindow, Capacity: 5, Refill: 24 * time.Hour},
		"many recently": {Kind: rules.SlidingWindow, Capacity: 1_000_000_000_000_000, Refill: 24 * time.Hour},
	}
}

// extremeDemand is for cost tokens of a band, with a slot of the request if that is set.
func extremeDemand(f *fixture, cost int64, b rules.Band, slot bool) store.Demand {
	bands := []rules.Band{b}
	if slot {
		bands = append(bands, rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 5, Hold: time.Minute})
	}
	d := f.demand(cost, bands...)
	if b.Kind == rules.Quota {
		f.setEdges(&d.Bands[0], time.Hour, time.Hour)
	}
	d.Holder = holder()
	return d
}

func largestCosts(t testing.TB, b Backend) {
	for name, limit := range extremeBands() {
		for _, slot := range []bool{false, true} {
			f := newFixture(t, b)
			d := extremeDemand(f, store.MaxCost, limit, slot)
			if out := f.take(d); out.Results[0].Status != store.TooCostly {
				t.Errorf("%s: the largest cost is %v, want too costly", name, out.Results[0].Status)
			}
			d.Cost = 1
			s := f.settle(store.MaxCost, f.mustTake(d), d)
			exact := &d.Bands[0]
			if want := exact.Max/exact.Unit - 1; s.Returned != 0 || s.Charged != want {
				t.Errorf("%s: settling 1 at the largest cost is %+v, want %d charged: as much as may be owed", name, s, want)
			}
			if over := f.peek(d).Results[0].Bands[0]; over.Remaining != 0 || over.Owed != (exact.Max-exact.Limit)/exact.Unit {
				t.Errorf("%s: %d tokens left and %d owed, want the most that may be", name, over.Remaining, over.Owed)
			}
		}
	}
	f := newFixture(t, b)
	d := f.slots(5)
	d.Cost = store.MaxCost
	for actual, want := range map[int64]store.Settlement{0: {Returned: store.MaxCost}, store.MaxCost: {}} {
		if s := f.settle(actual, f.mustTake(d), d); s != want {
			t.Errorf("settling a slot at %d is %+v, want %+v", actual, s, want)
		}
	}
	d.Cost = 1
	if s := f.settle(store.MaxCost, f.mustTake(d), d); s.Charged != store.MaxCost-1 || f.remaining(d) != 5 {
		t.Errorf("settling a slot at the largest cost is %+v, and leaves %d slots of 5", s, f.remaining(d))
	}
}

func costsAboveLargest(t testing.TB, b Backend) {
	for name, limit := range extremeBands() {
		for _, cost := range []int64{store.MaxCost + 1, 1 << 60, math.MaxInt64} {
			f := newFixture(t, b)
			d := extremeDemand(f, 1, limit, true)
			takes := store.NewTakes([]store.Demand{d}, f.mustTake(d))
			left := f.peek(d).Results[0].Bands[0].Remaining
			costly, huge, asked := d, takes[0], takes[0]
			costly.Cost, huge.Cost, asked.Asked = cost, cost, cost
			var out store.Outcome
			if err := f.Store.Take(f.Context(), []store.Demand{costly}, &out); !errors.Is(err, store.ErrDemand) {
				t.Errorf("%s: a cost of %d has the error %v", name, cost, err)
			}
			if err := f.Store.Peek(f.Context(), []store.Demand{costly}, &out); !errors.Is(err, store.ErrDemand) {
				t.Errorf("%s: a peek at a cost of %d has the error %v", name, cost, err)
			}
			for _, c := range []struct {
				take   store.Taken
				actual int64
			}{{takes[0], cost}, {huge, 0}, {huge, cost}, {asked, 0}} {
				if s, err := f.Store.Settle(f.Context(), store.Takes{c.take}, []int64{c.actual}); !errors.Is(err, store.ErrDemand) {
					t.Errorf("%s: settling %d of %d at %d is %+v, error %v", name, c.take.Cost, c.take.Asked, c.actual, s, err)
				}
			}
			if now := f.peek(d).Results[0].Bands[0].Remaining; now != left {
				t.Errorf("%s: %d tokens left, want %d as before", name, now, left)
			}
		}
	}
}
