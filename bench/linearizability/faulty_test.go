package linearizability

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// faulty is a correct store but for what a test replaces.
type faulty struct {
	*memstore.Store
	take   func(ctx context.Context, demands []store.Demand, out *store.Outcome) error
	peek   func(ctx context.Context, demands []store.Demand, out *store.Outcome) error
	settle func(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error)
	extend func(ctx context.Context, takes store.Takes) ([]bool, error)
	reset  func(ctx context.Context, what store.Reset) (bool, error)
}

func (f *faulty) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return f.take(ctx, demands, out)
}

func (f *faulty) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return f.peek(ctx, demands, out)
}

func (f *faulty) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	return f.settle(ctx, takes, actual)
}

func (f *faulty) Extend(ctx context.Context, takes store.Takes) ([]bool, error) {
	return f.extend(ctx, takes)
}

func (f *faulty) Reset(ctx context.Context, what store.Reset) (bool, error) {
	return f.reset(ctx, what)
}

// faults are stores with one fault each, that shows in one of every ten calls.
var faults = map[string]func(f *faulty, now func() bool){
	"answers a peek from a cache": func(f *faulty, now func() bool) {
		var mu sync.Mutex
		cache := map[store.KeyID]store.Result{}
		f.peek = func(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
			err := f.Store.Peek(ctx, demands, out)
			mu.Lock()
			defer mu.Unlock()
			for i := range demands {
				r := &out.Results[i]
				if old, ok := cache[demands[i].Key.ID]; ok && now() && len(demands) == 1 {
					old.Now = r.Now // it is as if it were new
					*r = old
				}
				kept := *r
				kept.Bands = slices.Clone(r.Bands)
				cache[demands[i].Key.ID] = kept
			}
			out.Decide(demands)
			return err
		}
	},
	"takes twice": func(f *faulty, now func() bool) {
		f.take = func(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
			if now() {
				var first store.Outcome
				_ = f.Store.Take(ctx, demands, &first)
			}
			return f.Store.Take(ctx, demands, out)
		}
	},
	"loses a take": func(f *faulty, now func() bool) {
		f.take = func(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
			err := f.Store.Take(ctx, demands, out)
			if takes := store.NewTakes(demands, out); takes != nil && now() {
				_, _ = f.Store.Settle(ctx, takes, takes.Same(0))
			}
			return err
		}
	},
	"gives back more than was taken": func(f *faulty, now func() bool) {
		f.settle = func(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
			if now() {
				takes = slices.Clone(takes)
				for i := range takes {
					takes[i].Cost++
					takes[i].Asked++
				}
			}
			return f.Store.Settle(ctx, takes, actual)
		}
	},
	"settles twice": func(f *faulty, now func() bool) {
		f.settle = func(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
			if now() {
				_, _ = f.Store.Settle(ctx, takes, actual)
			}
			return f.Store.Settle(ctx, takes, actual)
		}
	},
	"does not settle": func(f *faulty, now func() bool) {
		f.settle = func(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
			if !now() {
				return f.Store.Settle(ctx, takes, actual)
			}
			settled := make([]store.Settlement, len(actual))
			for i := range actual {
				settled[i].Returned = max(0, takes[i].Cost-actual[i])
				settled[i].Charged = max(0, actual[i]-takes[i].Asked)
			}
			return settled, nil
		}
	},
	"extends what is lost": func(f *faulty, now func() bool) {
		f.extend = func(ctx context.Context, takes store.Takes) ([]bool, error) {
			held, err := f.Store.Extend(ctx, takes)
			if len(held) > 0 && now() {
				held[0] = !held[0]
			}
			return held, err
		}
	},
	"takes from one bucket after the other": func(f *faulty, now func() bool) {
		f.take = func(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
			if !now() {
				return f.Store.Take(ctx, demands, out)
			}
			out.Prepare(demands)
			for i := range demands {
				var one store.Outcome
				if err := f.Store.Take(ctx, demands[i:i+1], &one); err != nil {
					return err
				}
				out.Results[i] = one.Results[0]
				out.Results[i].Now = out.Results[0].Now
			}
			out.Decide(demands)
			return nil
		}
	},
	"forgets a reset": func(f *faulty, now func() bool) {
		f.reset = func(ctx context.Context, what store.Reset) (bool, error) {
			if now() {
				return true, nil
			}
			return f.Store.Reset(ctx, what)
		}
	},
	"decides by a late clock": func(f *faulty, now func() bool) {
		f.take = func(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
			err := f.Store.Take(ctx, demands, out)
			if now() {
				for i := range out.Results {
					out.Results[i].Now -= 100
				}
			}
			return err
		}
	},
}

// Every fault is found, and none without one.
func TestFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inner, calls := newMemory(t), new(atomic.Int64)
			f := &faulty{inner, inner.Take, inner.Peek, inner.Settle, inner.Extend, inner.Reset}
			fault(f, func() bool { return calls.Add(1)%10 == 0 })
			const most = 30
			for n := range most {
				h, linear, _, err := check(t.Context(), []store.Store{f}, uint64(n), atomicity{takes: true})
				if err != nil {
					t.Fatal(err)
				}
				if !linear {
					t.Logf("found in history %d of %d operations", n+1, len(h.done))
					return
				}
			}
			t.Errorf("%d histories are linearizable", most)
		})
	}
}

// The model is not a copy of a store: here are decisions that it must accept and refuse.
func TestModel(t *testing.T) {
	limits := [][]limit{{{kind: rules.TokenBucket, capacity: 2, tokens: 1, period: 1000}}}
	m := newModel(limits)
	demand := store.Demand{Cost: 1, MaxWait: time.Second}
	take := func(now, remaining, owed, wait, full int64) (*input, *output) {
		band := store.BandResult{Remaining: remaining, Owed: owed, Wait: micros(wait), FullAfter: micros(full)}
		result := store.Result{Granted: 1, Now: now, Wait: micros(wait), Bands: []store.BandResult{band}}
		return &input{op: "take", sets: []int{0}, demands: []store.Demand{demand}},
			&output{called: now, returned: now, outcome: store.Outcome{Admission: store.Admitted, Results: []store.Result{result}}}
	}
	state := m.Init()
	for _, step := range []struct {
		now, remaining, owed, wait, full int64
		want                             bool
	}{
		{5000, 2, 0, 0, 0, false}, // nothing was taken
		{5000, 1, 0, 0, 1000, true},
		{5400, 0, 0, 0, 1600, true},
		{5400, 0, 0, 0, 2600, false}, // it must wait
		{5400, 0, 1, 600, 2600, true},
		{5300, 0, 2, 1700, 3700, false}, // before the last
		{8000, 1, 0, 0, 1000, true},     // full again
	} {
		in, out := take(step.now, step.remaining, step.owed, step.wait, step.full)
		ok, next := m.Step(state, in, out)
		if ok != step.want {
			t.Errorf("%+v is accepted: %v", step, ok)
		}
		if ok {
			state = next
		}
	}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
