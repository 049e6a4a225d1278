package storetest

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var minChecks = []Check{
	{"min grants what all bands have now", minGrantsWhatIsThere},
	{"min is refused where less is there, and takes nothing", minIsRefused},
	{"min is granted for each demand and keeps others from taking", minOfEveryDemand},
	{"min waits for no more than the least", minWaits},
	{"min of what was granted is settled", minIsSettled},
}

// minDemand is a demand for min to cost tokens.
func (f *fixture) minDemand(least, cost int64, bands ...rules.Band) store.Demand {
	f.Helper()
	d := f.demand(cost, bands...)
	d.Min = least
	return d
}

func minGrantsWhatIsThere(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.minDemand(2, 10, band("a", 25, 1, time.Hour), band("b", 17, 1, time.Minute))
	for i, want := range []int64{10, 7} {
		if peeked := f.peek(d).Results[0].Granted; peeked != want {
			t.Errorf("a peek before take %d says that %d would be granted, want %d", i, peeked, want)
		}
		out := f.mustTake(d)
		if got := out.Results[0]; got.Granted != want || got.Wait != 0 {
			t.Errorf("take %d is granted %d after %v, want %d at once", i, got.Granted, got.Wait, want)
		}
	}
	d.Cost, d.Min = 0, 0
	for i, want := range []int64{8, 0} {
		if left := f.peek(d).Results[0].Bands[i].Remaining; left != want {
			t.Errorf("band %d has %d left, want %d", i, left, want)
		}
	}
	// A part of a token is not granted.
	d.Cost, d.Min = 10, 1
	f.Advance(3*time.Minute - time.Microsecond)
	if got := f.mustTake(d).Results[0].Granted; got != 2 {
		t.Errorf("a microsecond before the third token %d were granted, want 2", got)
	}
	// More than the capacity may be asked for.
	d = f.minDemand(1, 1_000, band("", 5, 1, time.Hour))
	if got := f.mustTake(d).Results[0].Granted; got != 5 {
		t.Errorf("of a full bucket of 5, %d were granted to a demand for 1 to 1,000", got)
	}
}

func minIsRefused(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.minDemand(4, 10, band("", 13, 1, time.Second))
	f.mustTake(d)
	for range 3 {
		result := f.mustReject(d).Results[0]
		if result.Granted != 0 || result.Wait != time.Second {
			t.Errorf("with 3 left a demand for at least 4 was granted %d, and would fit in %v, want 1s", result.Granted, result.Wait)
		}
	}
	if left := f.remaining(d); left != 3 {
		t.Errorf("%d left, want 3", left)
	}
	d.Min, d.Cost = 14, 20
	if status := f.mustReject(d).Results[0].Status; status != store.TooCostly {
		t.Errorf("at least 14 of 13 is %v, want too costly", status)
	}
	for _, least := range []int64{-1, 21} {
		d.Min = least
		var out store.Outcome
		if err := f.Store.Take(f.Context(), []store.Demand{d}, &out); err == nil {
			t.Errorf("a demand for at least %d of 20 tokens is accepted", least)
		}
	}
}

func minOfEveryDemand(t testing.TB, b Backend) {
	f := newFixture(t, b)
	first, second := f.minDemand(1, 10, band("", 10, 1, time.Hour)), f.minDemand(5, 10, band("", 7, 1, time.Hour))
	whole := f.demand(3, band("", 100, 1, time.Hour))
	shadow := f.minDemand(1, 10, band("", 4, 1, time.Hour))
	shadow.Shadow = true
	out := f.mustTake(first, second, whole, shadow)
	for i, want := range []int64{10, 7, 3, 4} {
		if got := out.Results[i].Granted; got != want {
			t.Errorf("demand %d is granted %d, want %d", i, got, want)
		}
	}
	// The second is empty: none of the others may take.
	fresh := f.minDemand(1, 10, band("", 10, 1, time.Hour))
	out = f.mustReject(fresh, second, whole)
	for i := range out.Results {
		if got := out.Results[i].Granted; got != 0 {
			t.Errorf("demand %d of a rejected request is granted %d", i, got)
		}
	}
	for d, want := range map[*store.Demand]int64{&fresh: 10, &whole: 97} {
		if left := f.remaining(*d); left != want {
			t.Errorf("%d left after a rejection, want %d", left, want)
		}
	}
}

func minWaits(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.minDemand(3, 10, band("", 10, 1, time.Second))
	f.mustTake(d)
	f.Advance(time.Second)
	d.MaxWait = time.Minute
	// One token is left, which is less than Min.
	out := f.mustTake(d)
	if got := out.Results[0]; got.Granted != 3 || got.Wait != 2*time.Second {
		t.Errorf("with 1 of at least 3 there, %d are granted after %v, want 3 after 2s", got.Granted, got.Wait)
	}
	f.Advance(2*time.Second + 4*time.Second)
	if got := f.mustTake(d).Results[0]; got.Granted != 4 || got.Wait != 0 {
		t.Errorf("with 4 of at least 3 there, %d are granted after %v, want 4 at once", got.Granted, got.Wait)
	}
}

func minIsSettled(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.minDemand(1, 100, band("", 40, 1, time.Hour))
	out := f.mustTake(d)
	takes := store.NewTakes([]store.Demand{d}, out)
	if cost := takes[0].Cost; cost != 40 {
		t.Errorf("the receipt says %d, want the 40 that were granted", cost)
	}
	if s := f.settle(15, out, d); s.Returned != 25 {
		t.Errorf("settling a grant of 40 at 15 returns %d, want 25", s.Returned)
	}
	if left := f.remaining(d); left != 25 {
		t.Errorf("%d left, want 25", left)
	}
}
