package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// inParallel runs a caller's steps in several goroutines.
func inParallel(steps int, run func(r *rand.Rand)) {
	var wg sync.WaitGroup
	for caller := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(caller, 7))
			for range steps {
				run(r)
			}
		})
	}
	wg.Wait()
}

// several are demands of different callers.
func (f *fixture) several(r *rand.Rand, callers int) []store.Demand {
	var demands []store.Demand
	for _, caller := range r.Perm(callers)[:1+r.IntN(6)] {
		demands = append(demands, f.demand(caller, 1+r.Int64N(3)))
	}
	return demands
}

func TestStore_ConcurrentOperations(t *testing.T) {
	for _, most := range []int{3, 40, 0} {
		t.Run(fmt.Sprint("with a bound of ", most), func(t *testing.T) {
			f := newFixture(t, most, rules.PerMinute(100))
			inParallel(300, func(r *rand.Rand) {
				demands := f.several(r, 100)
				var out store.Outcome
				if err := f.Take(t.Context(), demands, &out); err != nil {
					t.Error(err)
				}
				if takes := store.NewTakes(demands, &out); takes != nil && r.IntN(2) == 0 {
					if _, err := f.Settle(t.Context(), takes, takes.Same(r.Int64N(5))); err != nil {
						t.Error(err)
					}
				}
				switch r.IntN(20) {
				case 0:
					if _, err := f.Reset(t.Context(), store.Reset{Key: demands[0].Key}); err != nil {
						t.Error(err)
					}
				case 1:
					if _, err := f.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "set", Rule: "rule"}}); err != nil {
						t.Error(err)
					}
				case 2:
					if err := f.Peek(t.Context(), demands, &out); err != nil {
						t.Error(err)
					}
				case 3:
					f.clock.Advance(time.Duration(r.IntN(4)-1) * time.Second)
				}
				if got := f.Stats().Buckets; most > 0 && got > most {
					t.Errorf("%d buckets are remembered, at most %d may be", got, most)
				}
			})
		})
	}
}

// No token is lost or created by concurrent requests.
func TestStore_ConcurrentTokens(t *testing.T) {
	f := newFixture(t, 0, rules.PerHour(1_000))
	const callers = 10
	var taken [callers]atomic.Int64
	inParallel(400, func(r *rand.Rand) {
		cost, actual := 1+r.Int64N(5), r.Int64N(6)
		caller := r.IntN(callers)
		demands := []store.Demand{f.demand(caller, cost), f.demand((caller+1)%callers, cost)}
		var out store.Outcome
		if err := f.Take(t.Context(), demands, &out); err != nil {
			t.Error(err)
			return
		}
		takes := store.NewTakes(demands, &out)
		if takes == nil {
			return
		}
		if r.IntN(2) == 0 {
			// The clock is stopped: all unused tokens come back, and all excess
			// is charged, into debt if necessary.
			if _, err := f.Settle(t.Context(), takes, takes.Same(actual)); err != nil {
				t.Error(err)
			}
			cost = actual
		}
		taken[caller].Add(cost)
		taken[(caller+1)%callers].Add(cost)
	})
	for caller := range taken {
		if got, want := f.left(caller), max(0, 1_000-taken[caller].Load()); got != want {
			t.Errorf("caller %d has %d left, the books say %d", caller, got, want)
		}
	}
}
