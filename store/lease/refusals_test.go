package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// world is a store in memory that two gateways share, on one clock.
type world struct {
	testing.TB
	clock *storetest.Clock
	calls int // of Take
	store.Store
	here, there *lease.Store
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, clock: storetest.NewClock()}
	w.Store = fluxgate.Must(memstore.New(memstore.Config{Clock: w.clock.Now}))
	w.here = lease.New(w, lease.Config{Now: w.clock.Now})
	w.there = lease.New(w, lease.Config{Now: w.clock.Now})
	return w
}

// Take counts the calls that reach the store.
func (w *world) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	w.calls++
	return w.Store.Take(ctx, demands, out)
}

// demand is one for a bucket of the name.
func demand(name string, cost int64, bands ...rules.Band) store.Demand {
	d := store.Demand{Key: store.Key{RuleSet: "api", Rule: "r"}, Cost: cost}
	copy(d.Key.ID[:], name)
	for i, b := range bands {
		d.Bands = append(d.Bands, fluxgate.Must(b.Exact(i)))
	}
	return d
}

func (w *world) take(s store.Store, demands ...store.Demand) *store.Outcome {
	w.Helper()
	out := new(store.Outcome)
	if err := s.Take(w.Context(), demands, out); err != nil {
		w.Fatal(err)
	}
	return out
}

// asked reports whether a take reaches the store.
func (w *world) asked(demands ...store.Demand) bool {
	w.Helper()
	before := w.calls
	w.take(w.here, demands...)
	return w.calls > before
}

var perMinute = rules.PerMinute(6) // a token each 10 s

// A bucket that refused is not asked before the request could fit, and for at most a
// second.
func TestRefusals_UntilItFits(t *testing.T) {
	w := newWorld(t)
	d := demand("a", 6, perMinute)
	w.take(w.here, d)
	d.Cost = 1
	if out := w.take(w.here, d); out.Admitted() || out.Results[0].Source != store.FromStore {
		t.Fatalf("the first refusal is %+v", out.Results[0])
	}
	w.clock.Advance(400 * time.Millisecond)
	out := w.take(w.here, d)
	r := out.Results[0]
	if w.calls != 2 || out.Admitted() || r.Status != store.Rejected || r.Source != store.FromNegativeCache || r.Wait != 9600*time.Millisecond || r.Bands[0].Wait != r.Wait || r.Bands[0].FullAfter != 59600*time.Millisecond {
		t.Errorf("after %d calls: %+v", w.calls, r)
	}
	if r.Now != w.clock.Now().UnixMicro() {
		t.Errorf("decided at %d, the store has %d", r.Now, w.clock.Now().UnixMicro())
	}
	w.clock.Advance(600 * time.Millisecond)
	if !w.asked(d) {
		t.Error("the bucket is not asked after a second")
	}
	w.clock.Advance(9 * time.Second) // to the tick at which it fits
	if out := w.take(w.here, d); !out.Admitted() {
		t.Errorf("refused when it fits: %+v", out.Results[0])
	}
}

// A short wait ends exactly when the token is there.
func TestRefusals_NeverLate(t *testing.T) {
	w := newWorld(t)
	d := demand("a", 10, rules.PerSecond(10))
	w.take(w.here, d)
	d.Cost = 1
	w.take(w.here, d)
	w.clock.Advance(100*time.Millisecond - time.Microsecond)
	if w.asked(d) {
		t.Error("the bucket is asked a microsecond too early")
	}
	w.clock.Advance(time.Microsecond)
	if !w.take(w.here, d).Admitted() {
		t.Error("refused at the tick at which it fits")
	}
}

// Only requests that cannot fit for certain are refused without asking.
func TestRefusals_WhatIsAsked(t *testing.T) {
	slot := rules.Band{Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute}
	with := func(d store.Demand, change func(*store.Demand)) store.Demand {
		change(&d)
		return d
	}
	other := rules.PerMinute(7)
	for name, c := range map[string]struct {
		refused, next store.Demand
		asked         bool
	}{
		"the same":              {demand("a", 3, perMinute), demand("a", 3, perMinute), false},
		"a higher cost":         {demand("a", 3, perMinute), demand("a", 4, perMinute), false},
		"a lower cost":          {demand("a", 3, perMinute), demand("a", 2, perMinute), true},
		"of another bucket":     {demand("a", 3, perMinute), demand("b", 3, perMinute), true},
		"with other bands":      {demand("a", 3, perMinute), demand("a", 3, other), true},
		"that can wait":         {demand("a", 3, perMinute), with(demand("a", 3, perMinute), func(d *store.Demand) { d.MaxWait = time.Minute }), true},
		"that cannot wait long": {demand("a", 3, perMinute), with(demand("a", 3, perMinute), func(d *store.Demand) { d.MaxWait = time.Second }), false},
		"that is strict":        {demand("a", 3, perMinute), with(demand("a", 3, perMinute), func(d *store.Demand) { d.Strict = true }), true},
		"in shadow mode":        {demand("a", 3, perMinute), with(demand("a", 3, perMinute), func(d *store.Demand) { d.Shadow = true }), true},
		"an overdraft":          {demand("a", 3, perMinute), with(demand("a", 3, perMinute), func(d *store.Demand) { d.Overdraft = true }), true},
		"that accepts less":     {demand("a", 3, perMinute), with(demand("a", 3, perMinute), func(d *store.Demand) { d.Min = 1 }), true},
		"of slots": {
			with(demand("a", 1, slot), func(d *store.Demand) { d.Holder = store.HolderID{1} }),
			with(demand("a", 1, slot), func(d *store.Demand) { d.Holder = store.HolderID{2} }), true,
		},
	} {
		w := newWorld(t)
		first := c.refused
		if first.Holder == (store.HolderID{}) {
			first.Cost = 5 // one is left
		} else {
			first.Holder[0] = 3
		}
		w.take(w.here, first)
		if w.take(w.here, c.refused).Admitted() {
			t.Fatalf("%s: the bucket has not refused", name)
		}
		if got := w.asked(c.next); got != c.asked {
			t.Errorf("a request %s is asked: %t", name, got)
		}
	}
}

// A cost above the capacity is refused for good, also from memory.
func TestRefusals_TooCostly(t *testing.T) {
	w := newWorld(t)
	w.take(w.here, demand("a", 6, perMinute))
	w.take(w.here, demand("a", 1, perMinute))
	out := w.take(w.here, demand("a", 7, perMinute))
	if r := out.Results[0]; w.calls != 2 || r.Status != store.TooCostly || r.Wait != 0 || r.Bands[0].Wait != 0 {
		t.Errorf("after %d calls: %+v", w.calls, r)
	}
}

// A request with several demands is refused if one is known not to fit. The others are
// not asked, and shadow demands refuse nothing.
func TestRefusals_OtherDemands(t *testing.T) {
	w := newWorld(t)
	blocked, free, shadow := demand("a", 6, perMinute), demand("b", 1, perMinute), demand("c", 1, perMinute)
	shadow.Shadow = true
	w.take(w.here, blocked)
	blocked.Cost = 1
	w.take(w.here, blocked)
	out := w.take(w.here, free, blocked, shadow)
	if w.calls != 2 || out.Admission != store.NotAdmitted {
		t.Fatalf("%d calls, %+v", w.calls, out)
	}
	for i, want := range []store.Status{store.NotAsked, store.Rejected, store.NotAsked} {
		if got := out.Results[i]; got.Status != want || got.Granted != 0 {
			t.Errorf("demand %d: %+v, want %v", i, got, want)
		}
	}
	if store.NewTakes([]store.Demand{free, blocked, shadow}, out) != nil {
		t.Error("there is a receipt for what was not taken")
	}
	// Twice the same bucket is invalid, whatever is known of it.
	if err := w.here.Take(t.Context(), []store.Demand{blocked, blocked}, out); err == nil {
		t.Error("an invalid request is answered")
	}
}

// What this gateway gives back or resets is seen at once, what another one does after a
// second.
func TestRefusals_Dropped(t *testing.T) {
	d := demand("a", 6, perMinute)
	for name, c := range map[string]struct {
		change func(w *world, s store.Store, takes store.Takes) error
	}{
		"a settlement": {func(w *world, s store.Store, takes store.Takes) error {
			_, err := s.Settle(w.Context(), takes, []int64{0})
			return err
		}},
		"a reset": {func(w *world, s store.Store, _ store.Takes) error {
			_, err := s.Reset(w.Context(), store.Reset{Key: d.Key})
			return err
		}},
	} {
		for _, elsewhere := range []bool{false, true} {
			w := newWorld(t)
			takes := store.NewTakes([]store.Demand{d}, w.take(w.here, d))
			w.take(w.here, d)
			by := w.here
			if elsewhere {
				by = w.there
			}
			if err := c.change(w, by, takes); err != nil {
				t.Fatal(err)
			}
			if admitted := w.take(w.here, d).Admitted(); admitted == elsewhere {
				t.Errorf("after %s, elsewhere %t: admitted %t", name, elsewhere, admitted)
			}
			w.clock.Advance(lease.MaxAge)
			if elsewhere && !w.take(w.here, d).Admitted() {
				t.Errorf("%s elsewhere is not seen after a second", name)
			}
		}
	}
}

// A caller who is blocked for an hour costs a call a second.
func TestRefusals_CallsOfABlockedCaller(t *testing.T) {
	w := newWorld(t)
	d := demand("a", 1, rules.PerHour(1))
	for range 10_000 {
		w.take(w.here, d)
		w.clock.Advance(time.Millisecond)
	}
	if w.calls > 12 || w.here.Stats().Refused < 9_980 {
		t.Errorf("%d calls in 10 s, %d refused from memory", w.calls, w.here.Stats().Refused)
	}
}

// A peek reads the state, and an ended request is not answered.
func TestRefusals_PeekAndContext(t *testing.T) {
	w := newWorld(t)
	d := demand("a", 6, perMinute)
	w.take(w.here, d)
	w.take(w.here, d)
	out := new(store.Outcome)
	if err := w.here.Peek(t.Context(), []store.Demand{d}, out); err != nil || out.Results[0].Source != store.FromStore {
		t.Errorf("a peek: %+v, %v", out, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.here.Take(ended, []store.Demand{d}, out); err == nil {
		t.Error("a request that has ended is answered")
	}
}
