package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

var concurrencyChecks = []Check{
	{"concurrent callers get the capacity and not a token more", concurrentBurst},
	{"concurrent callers are served as by the ideal bucket while time passes", concurrentHistory},
	{"concurrent requests over shared rules take all or nothing", concurrentAtomic},
}

const callers = 16

// each runs a function in every caller and waits for all.
func each(f *fixture, run func(caller int)) {
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() { run(caller) })
	}
	wg.Wait()
	if f.Failed() {
		f.FailNow()
	}
}

// tryTake is take for goroutines other than the test's own.
func (f *fixture) tryTake(out *store.Outcome, demands ...store.Demand) bool {
	if err := f.Store.Take(f.Context(), demands, out); err != nil {
		f.Errorf("Take: %v", err)
		return false
	}
	return out.Admitted()
}

func concurrentBurst(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 500, 1, time.Hour))
	var admitted atomic.Int64
	each(f, func(int) {
		var out store.Outcome
		for range 100 {
			if f.tryTake(&out, d) {
				admitted.Add(1)
			}
		}
	})
	if n := admitted.Load(); n != 500 {
		t.Errorf("%d of %d requests passed a bucket of 500", n, callers*100)
	}
}

func concurrentHistory(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 20, 7, 3*time.Millisecond))
	d.MaxWait = 2 * time.Millisecond
	start := f.peek(d).Results[0].Now
	histories := make([][]handedOut, callers)
	each(f, func(caller int) {
		var out store.Outcome
		for range 150 {
			if f.tryTake(&out, d) {
				result := &out.Results[0]
				histories[caller] = append(histories[caller], handedOut{result.Now + result.Wait.Microseconds(), 1})
			}
			if caller == 0 {
				f.Advance(137 * time.Microsecond)
			}
		}
	})
	var all []handedOut
	var end int64
	for _, h := range histories {
		all = append(all, h...)
		for _, e := range h {
			end = max(end, e.due)
		}
	}
	if from, to, units, most := tooMany(d.Bands[0], all); units > most {
		t.Errorf("%d units handed out between %d and %d, at most %d are due", units, from, to, most)
	}
	// No request was rejected without need: from start to the last due tick
	// nearly all tokens were used, since there are more callers than tokens.
	least := (d.Bands[0].Limit + (end-start)*d.Bands[0].Rate) / d.Bands[0].Unit
	if n := int64(len(all)); n < least-1 {
		t.Errorf("%d requests served, %d tokens were there", n, least)
	}
}

func concurrentAtomic(t testing.TB, b Backend) {
	f := newFixture(t, b)
	shared := f.demand(1, band("a", 300, 1, time.Hour), band("b", 1_000, 1, time.Hour))
	shared.Strict = true // what is left is compared
	own := make([]store.Demand, callers)
	for i := range own {
		own[i] = f.demand(1, band("", 25, 1, time.Hour))
	}
	var admitted atomic.Int64
	each(f, func(caller int) {
		var out store.Outcome
		for i := range 50 {
			// In either order: locks taken in the order of the demands would
			// deadlock.
			demands := []store.Demand{shared, own[caller], own[(caller+1)%callers]}
			if i%2 == 1 {
				demands[0], demands[2] = demands[2], demands[0]
			}
			if f.tryTake(&out, demands...) {
				admitted.Add(1)
			}
		}
	})
	n := admitted.Load()
	if left := f.remaining(shared); left != 300-n {
		t.Errorf("%d requests passed and the shared rule of 300 has %d left", n, left)
	}
	var used int64
	for i := range own {
		used += 25 - f.remaining(own[i])
	}
	if used != 2*n {
		t.Errorf("%d requests passed and took %d tokens of their own rules, want %d", n, used, 2*n)
	}
}
