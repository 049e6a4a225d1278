package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
)

// pausing returns a demand that the pause of its lease refuses.
func pausing(w *world) store.Demand {
	w.Helper()
	band := rules.PerSecond(400)
	x, rest := demand("x", 1, band), demand("x", band.Capacity, band)
	x.Leased = true
	w.take(w.there, rest)
	w.take(w.here, x)
	w.clock.Advance(5 * time.Millisecond) // the store has tokens
	if r := w.take(w.here, x).Results[0]; r.Status != store.Rejected || r.Source != store.FromLease {
		w.Fatalf("there is no pause: %+v", r)
	}
	return x
}

// A request that ends the pause of a bucket and gets no answer of it leaves that to the
// next request: no caller else may be refused for it.
func TestContended_EndedInVain(t *testing.T) {
	for name, request := range map[string]func(w *world, d store.Demand){
		"the pause of another lease refuses it": func(w *world, d store.Demand) {
			if x := pausing(w); w.asked(d, x) {
				w.Error("the store was asked")
			}
		},
		"the pause of another refusal refuses it": func(w *world, d store.Demand) {
			other := contendedAs(w, "x", rules.PerSecond(100))
			if w.asked(d, other) {
				w.Error("the store was asked")
			}
		},
		"it is invalid": func(w *world, d store.Demand) {
			if w.here.Take(w.Context(), []store.Demand{d, d}, new(store.Outcome)) == nil {
				w.Error("it is not")
			}
		},
		"its caller leaves": func(w *world, d store.Demand) {
			ctx, leave := context.WithCancel(w.Context())
			nested := w.Store
			w.Store = &slow{nested, leave}
			_ = w.here.Take(ctx, []store.Demand{d}, new(store.Outcome))
			w.Store = nested
		},
		"the store is away": func(w *world, d store.Demand) {
			nested := w.Store
			w.Store = away{nested}
			if err := w.here.Take(w.Context(), []store.Demand{d}, new(store.Outcome)); !errors.Is(err, store.ErrNotSent) {
				w.Errorf("the error is %v", err)
			}
			w.Store = nested
		},
		"no bucket has as much": func(w *world, d store.Demand) {
			d.Cost = 1_000
			w.take(w.here, d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := contended(w, rules.PerSecond(100))
			w.clock.Advance(lease.MaxPause)
			request(w, d)
			if out := w.take(w.here, d); !out.Admitted() {
				t.Errorf("the next request is refused: %+v", out.Results[0])
			}
		})
	}
}

// away is a store that cannot be called.
type away struct{ store.Store }

func (away) Take(context.Context, []store.Demand, *store.Outcome) error {
	return store.ErrNotSent
}

// A caller above its own limit, whose lease pauses most of the time, does not lock others
// out of a limit that they share.
func TestContended_HotCaller(t *testing.T) {
	w := newWorld(t)
	w.here = lease.New(w, lease.Config{Now: w.clock.Now, Go: func(call func()) { call() }})
	x, y := demand("x", 1, rules.PerSecond(400)), demand("y", 1, rules.PerSecond(1_000))
	load := func() { // 10,000 requests a second of x that are not under the shared limit
		for range 10 {
			w.take(w.here, x)
		}
		w.clock.Advance(time.Millisecond)
	}
	for range 500 {
		load()
	}
	shared := contended(w, rules.PerSecond(100))
	strict := shared
	strict.Strict = true
	var since time.Time // when y was first refused although the store had a token
	for ms := range 5_000 {
		w.take(w.here, shared, x)
		if ms%20 == 7 {
			w.take(w.there, strict)
		}
		if ms%5 == 0 {
			var before store.Outcome
			if err := w.Peek(t.Context(), []store.Demand{strict}, &before); err != nil {
				t.Fatal(err)
			}
			switch admitted := w.take(w.here, shared, y).Admitted(); {
			case admitted || before.Results[0].Bands[0].Remaining == 0:
				since = time.Time{}
			case since.IsZero():
				since = w.clock.Now()
			case w.clock.Now().Sub(since) > 2*lease.MaxPause:
				t.Fatalf("y has been refused for %v, although the shared bucket has %d tokens", w.clock.Now().Sub(since), before.Results[0].Bands[0].Remaining)
			}
		}
		load()
	}
}
