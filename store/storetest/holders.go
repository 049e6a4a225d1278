package storetest

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var holderChecks = []Check{
	{"concurrency admits its capacity at the same time and not one more", concurrencyLimit},
	{"concurrency releases a slot once", concurrencyReleasesOnce},
	{"concurrency takes the slot of a lost holder back after its hold", concurrencyLostHolder},
	{"concurrency keeps a slot that is renewed, and renews no lost one", concurrencyExtend},
	{"concurrency renews the other slots of a request that has lost one", concurrencyLostInPart},
	{"concurrency is renewed and other bands stay as they are", concurrencyExtendAlone},
	{"concurrency of a request that is refused is not held", concurrencyRefused},
	{"concurrency takes slots back when the clock has stepped back", concurrencyClockStepsBack},
	{"concurrency does not bind a demand without a holder", concurrencyWithoutHolder},
}

// slots is a demand for a slot of a fresh concurrency band, which is lost after a minute.
func (f *fixture) slots(capacity int64) store.Demand {
	f.Helper()
	d := f.demand(1, rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: capacity, Hold: time.Minute})
	d.Holder = holder()
	return d
}

func holder() (id store.HolderID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// again is the demand of another request.
func again(d store.Demand) store.Demand {
	d.Holder = holder()
	return d
}

func concurrencyLimit(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.slots(3)
	d.Cost = 1_000 // a request is one request, whatever it costs
	for left := int64(2); left >= 0; left-- {
		if got := f.mustTake(again(d)).Results[0].Bands[0].Remaining; got != left {
			t.Errorf("%d slots left, want %d", got, left)
		}
	}
	if result := f.mustReject(again(d)).Results[0]; result.Status != store.Rejected || result.Wait <= 0 {
		t.Errorf("the fourth is %v, and may try again after %v", result.Status, result.Wait)
	}
	d.MaxWait = time.Hour
	f.mustReject(again(d))
	free := d
	free.Cost = 0
	f.Advance(time.Second)
	got := f.peek(free).Results[0].Bands[0]
	if want := d.Bands[0].Period - time.Second; got.Remaining != 0 || got.FullAfter != want || got.MoreAfter != 0 {
		t.Errorf("%d slots left, want 0; all are back after %v, want %v; one is after %v, which is unknown", got.Remaining, got.FullAfter, want, got.MoreAfter)
	}
	f.reset(d.Key)
	f.mustTake(again(d))
}

func concurrencyReleasesOnce(t testing.TB, b Backend) {
	f := newFixture(t, b)
	first := f.slots(2)
	out := f.mustTake(first)
	f.mustTake(again(first))
	f.mustReject(again(first))
	for range 2 {
		f.settle(1, out, first) // at its cost
	}
	f.mustTake(again(first))
	f.mustReject(again(first))
	f.settle(0, out, first)
	f.mustReject(again(first))
}

func concurrencyLostHolder(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.slots(1)
	f.mustTake(d)
	f.Advance(time.Minute - time.Microsecond)
	f.mustReject(again(d))
	f.Advance(time.Microsecond)
	out := f.mustTake(again(d))
	if full := out.Results[0].Bands[0].FullAfter; full != time.Minute {
		t.Errorf("all slots are free after %v, want 1m", full)
	}
}

func concurrencyExtend(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.slots(1)
	takes := store.NewTakes([]store.Demand{d}, f.mustTake(d))
	extend := func() bool {
		return slices.Equal(f.extend(takes), []bool{true})
	}
	for range 3 {
		f.Advance(59 * time.Second)
		if !extend() {
			t.Fatal("a slot was lost before its hold")
		}
	}
	f.Advance(time.Minute - time.Microsecond)
	f.mustReject(again(d))
	f.Advance(time.Microsecond)
	if extend() {
		t.Error("a slot that was lost is renewed")
	}
	f.mustTake(again(d))
}

// concurrencyExtendAlone: the receipt may have a shorter window than the rule has now. The longer
// one would become one that no take asks for, which is kept for an hour.
func concurrencyExtendAlone(t testing.TB, b Backend) {
	f := newFixture(t, b)
	window := rules.Band{Label: "window", Kind: rules.SlidingWindow, Capacity: 3, Refill: 16 * time.Second}
	slots := rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 5, Hold: time.Minute}
	short := again(f.demand(1, window, slots))
	takes := store.NewTakes([]store.Demand{short}, f.mustTake(short))
	long := again(short)
	window.Refill = 24 * time.Hour
	long.Bands = f.bands(window, slots)
	f.mustTake(long)
	f.Advance(10 * time.Second)
	if !f.extend(takes)[0] {
		t.Error("a slot was lost before its hold")
	}
	f.Advance(2 * time.Hour)
	if left := f.remaining(long); left != 1 {
		t.Errorf("%d tokens are left in the window, want 1", left)
	}
}

func (f *fixture) extend(takes store.Takes) []bool {
	f.Helper()
	held, err := f.Store.Extend(f.Context(), takes)
	if err != nil {
		f.Fatal(err)
	}
	return held
}

func concurrencyLostInPart(t testing.TB, b Backend) {
	f := newFixture(t, b)
	lost, kept, plain := f.slots(1), f.slots(1), f.demand(5, band("", 10, 1, time.Hour))
	all := []store.Demand{lost, plain, kept}
	takes := store.NewTakes(all, f.mustTake(all...))
	f.Advance(30 * time.Second)
	f.reset(lost.Key)
	f.mustTake(again(lost))
	for range 3 {
		if got := f.extend(takes); !slices.Equal(got, []bool{false, true, true}) {
			t.Fatalf("held are %t, want all but the first", got)
		}
		f.mustReject(again(kept))
		f.Advance(50 * time.Second)
	}
	if settled := f.settleEach(takes, 1, 2, 1); settled[1].Returned == 0 {
		t.Errorf("settled at less: %+v", settled)
	}
	f.mustTake(again(kept)) // which the receipt has released
}

func concurrencyRefused(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.slots(1)
	other := f.demand(1, band("", 1, 1, time.Hour))
	f.mustTake(other)
	f.mustReject(d, other)
	f.peek(d)
	out := f.mustTake(again(d)) // which had not been held
	f.settle(0, out, again(d))  // of another holder
	f.mustReject(again(d))
}

func concurrencyClockStepsBack(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.slots(2)
	f.mustTake(d)
	f.Advance(-time.Hour)
	f.mustTake(again(d)) // adopts the clock
	f.mustReject(again(d))
	f.Advance(time.Minute)
	f.mustTake(again(d))
	f.mustTake(again(d))

	// Renewing or releasing a slot adopts the clock too, for all bands.
	for _, renews := range []bool{true, false} {
		slots := rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 2, Hold: time.Minute}
		d = again(f.demand(1, band("hour", 60, 60, time.Hour), slots))
		takes := store.NewTakes([]store.Demand{d}, f.mustTake(d))
		f.mustTake(again(d))
		f.Advance(-time.Hour)
		held := int64(1)
		if renews {
			if held++; !f.extend(takes)[0] {
				t.Error("a slot was lost when the clock stepped back")
			}
		} else {
			f.settleEach(takes, 1)
		}
		if bands := f.peek(d).Results[0].Bands; bands[0].Remaining != 58 || bands[1].Remaining != 2-held {
			t.Errorf("%d tokens and %d slots are left, want 58 and %d", bands[0].Remaining, bands[1].Remaining, 2-held)
		}
		f.Advance(time.Minute)
		if bands := f.peek(d).Results[0].Bands; bands[0].Remaining != 59 || bands[1].Remaining != 2 {
			t.Errorf("%d tokens and %d slots are left a minute later, want 59 and 2", bands[0].Remaining, bands[1].Remaining)
		}
	}

	// A slot that was renewed has the hold left, not also the time since it was given.
	for _, back := range []time.Duration{20 * time.Second, time.Hour} {
		d = f.slots(1)
		takes := store.NewTakes([]store.Demand{d}, f.mustTake(d))
		f.Advance(30 * time.Second)
		f.extend(takes)
		f.Advance(-back)
		f.mustReject(again(d)) // may adopt the clock
		if !f.extend(takes)[0] {
			t.Errorf("a slot was lost when the clock stepped back by %v", back)
		}
		f.Advance(time.Minute)
		f.mustTake(again(d))
	}
}

// concurrencyWithoutHolder: a charge for what has ended is not under way.
func concurrencyWithoutHolder(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("hour", 100, 100, time.Hour), rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 2, Hold: time.Minute})
	for range 2 {
		f.mustTake(again(d))
	}
	f.mustReject(again(d))
	d.Cost, d.Min = 50, 1
	if result := f.mustTake(d).Results[0]; result.Granted != 50 || result.Bands[0].Remaining != 48 || result.Bands[1].Remaining != 0 {
		t.Errorf("granted %d of 50 while all slots are held; %+v", result.Granted, result.Bands)
	}
	d.Min, d.Overdraft = 0, true
	if result := f.mustTake(d).Results[0]; result.Granted != 50 || result.Bands[0].Owed != 2 {
		t.Errorf("an overdraft of 50 debits %d while all slots are held; %+v", result.Granted, result.Bands)
	}
}
