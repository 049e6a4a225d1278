package storetest

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var overdraftChecks = []Check{
	{"overdraft is debited from an empty bucket", overdraftOfEmpty},
	{"overdraft fits while the balance is positive", overdraftFitsWhilePositive},
	{"overdraft is debited though the request is rejected", overdraftOfRejected},
	{"overdraft is bounded by the largest debt", overdraftIsBounded},
	{"overdraft changes nothing in a peek", overdraftPeek},
	{"overdraft is settled", overdraftIsSettled},
	{"overdraft cut by the largest debt is settled at its cost", overdraftCutIsSettled},
	{"overdraft keeps other takes within the capacity", overdraftBesideTakes},
	{"overdraft of a sliding window counts once", overdraftOfWindow},
}

// overdraft is a demand that is debited in any case.
func (f *fixture) overdraft(cost int64, bands ...rules.Band) store.Demand {
	f.Helper()
	d := f.demand(cost, bands...)
	d.Overdraft = true
	return d
}

func overdraftOfEmpty(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.overdraft(8, band("a", 10, 1, time.Second), band("b", 5, 1, time.Hour))
	out := f.mustTake(d)
	for i, want := range []store.BandResult{{Remaining: 2}, {Owed: 3}} {
		if got := out.Results[0].Bands[i]; got.Remaining != want.Remaining || got.Owed != want.Owed {
			t.Errorf("band %d has %d left and owes %d, want %d and %d", i, got.Remaining, got.Owed, want.Remaining, want.Owed)
		}
	}
	if granted := out.Results[0].Granted; granted != 8 {
		t.Errorf("%d were debited, want 8", granted)
	}
	// Band b has nothing left: the next is rejected and debited.
	out = f.mustReject(d)
	if got := out.Results[0]; got.Status != store.Rejected || got.Bands[0].Owed != 6 {
		t.Errorf("an overdraft of an empty bucket is %v and leaves a debt of %d, want rejected and 6", got.Status, got.Bands[0].Owed)
	}
	for _, broken := range []store.Demand{{MaxWait: time.Second}, {Min: 1}} {
		broken.Key, broken.Bands, broken.Cost, broken.Overdraft = d.Key, d.Bands, 8, true
		var out store.Outcome
		if err := f.Store.Take(f.Context(), []store.Demand{broken}, &out); err == nil {
			t.Errorf("an overdraft that waits %v for at least %d is accepted", broken.MaxWait, broken.Min)
		}
	}
}

func overdraftFitsWhilePositive(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.overdraft(3, band("", 2, 1, time.Second))
	f.mustTake(d) // one token of debt
	free := d
	free.Cost = 0
	if got := f.mustReject(free).Results[0].Wait; got != time.Second+time.Microsecond {
		t.Errorf("with a debt of one token the balance is positive in %v, want 1s and a tick", got)
	}
	f.Advance(time.Second)
	f.mustReject(free)
	f.Advance(time.Microsecond)
	// A millionth of a token is enough.
	if granted := f.mustTake(d).Results[0].Granted; granted != 3 {
		t.Errorf("%d were debited, want 3", granted)
	}
}

func overdraftOfRejected(t testing.TB, b Backend) {
	f := newFixture(t, b)
	empty, other := f.demand(1, band("", 1, 1, time.Hour)), f.demand(1, band("", 10, 1, time.Hour))
	shadow := f.overdraft(4, band("", 10, 1, time.Hour))
	shadow.Shadow = true
	d := f.overdraft(3, band("", 10, 1, time.Hour))
	f.mustTake(empty)
	for round := int64(1); round <= 4; round++ {
		out := f.mustReject(other, d, empty, shadow)
		for i, want := range []int64{0, 3, 0, 4} {
			if got := out.Results[i].Granted; got != want {
				t.Errorf("demand %d of a rejected request: %d were taken, want %d", i, got, want)
			}
		}
		if left, want := f.remaining(d), max(0, 10-3*round); left != want {
			t.Errorf("after %d rejections the overdraft has %d left, want %d", round, left, want)
		}
	}
	if left := f.remaining(other); left != 10 {
		t.Errorf("a rejected request took %d from another rule", 10-left)
	}
	if owed := f.peek(shadow).Results[0].Bands[0].Owed; owed != 6 {
		t.Errorf("a shadow overdraft owes %d, want 6", owed)
	}
	// A shadow overdraft of an empty bucket rejects no request.
	f.mustTake(shadow, other)
}

func overdraftIsBounded(t testing.TB, b Backend) {
	for _, cost := range []int64{1_000_000, store.MaxCost} {
		f := newFixture(t, b)
		d := f.overdraft(cost, band("a", 10, 10, time.Hour), band("b", 1_000_000_000, 1, time.Second))
		most := d.Bands[0].Max / d.Bands[0].Unit
		if granted := f.mustTake(d).Results[0].Granted; granted != most {
			t.Errorf("an overdraft of %d debits %d, want the %d of the largest debt", cost, granted, most)
		}
		d.Cost = 0
		before := f.peek(d).Results[0].Bands
		if want := time.Duration(d.Bands[0].Max/d.Bands[0].Rate) * time.Microsecond; before[0].FullAfter > want+time.Microsecond {
			t.Errorf("full after %v, the largest debt is paid in %v", before[0].FullAfter, want)
		}
		// A band with the largest debt does not prevent the debit of the other.
		d.Cost = 7
		after := f.mustReject(d).Results[0].Bands
		if after[0].FullAfter > before[0].FullAfter {
			t.Errorf("the largest debt grew: full after %v, before %v", after[0].FullAfter, before[0].FullAfter)
		}
		if debited := before[1].Remaining - after[1].Remaining; cost == 1_000_000 && debited != 7 {
			t.Errorf("the other band was debited %d, want 7", debited)
		}
	}
}

func overdraftPeek(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.overdraft(8, band("", 5, 1, time.Hour))
	for range 3 {
		if out := f.peek(d); !out.Admitted() || out.Results[0].Granted != 8 || out.Results[0].Bands[0].Remaining != 5 {
			t.Errorf("a peek says %+v", out.Results[0])
		}
	}
	f.mustTake(d)
	for range 3 {
		if out := f.peek(d); out.Admitted() || out.Results[0].Bands[0].Owed != 3 {
			t.Errorf("a peek at a debt of 3 says %+v", out.Results[0])
		}
	}
}

func overdraftIsSettled(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.overdraft(80, band("", 50, 1, time.Hour))
	out := f.mustTake(d)
	if s := f.settle(20, out, d); s.Returned != 60 {
		t.Errorf("settling an overdraft of 80 at 20 returns %d, want 60", s.Returned)
	}
	if left := f.remaining(d); left != 30 {
		t.Errorf("%d left, want 30", left)
	}
	d.Cost = 31
	f.mustTake(d)
	out = f.mustReject(d)
	if s := f.settle(32, out, d); s.Charged != 1 {
		t.Errorf("settling a rejected overdraft of 31 at 32 charges %d, want 1", s.Charged)
	}
}

func overdraftCutIsSettled(t testing.TB, b Backend) {
	const large = 1_000_000_000
	for _, more := range []int64{0, 5} {
		f := newFixture(t, b)
		d := f.overdraft(0, band("a", 10, 10, time.Hour), band("b", large, 1, time.Second))
		cost := d.Bands[0].Max/d.Bands[0].Unit + 30 // more than the first band can owe
		d.Cost = cost
		f.settle(cost+more, f.mustTake(d), d)
		d.Cost = 0
		if left := f.peek(d).Results[0].Bands[1].Remaining; left != large-cost-more {
			t.Errorf("an overdraft of %d settled at %d leaves %d in the band that has room, want %d",
				cost, cost+more, left, large-cost-more)
		}
	}
}

func overdraftBesideTakes(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 10, 1, time.Second))
	over := d
	over.Cost, over.Overdraft = 4, true
	f.mustTake(over)
	if n := f.drain(d); n != 6 {
		t.Errorf("%d tokens beside an overdraft of 4 of 10, want 6", n)
	}
	f.mustReject(over)
	if got := f.mustReject(d).Results[0].Wait; got != 5*time.Second {
		t.Errorf("with a debt of 4 a token is there in %v, want 5s", got)
	}
	f.Advance(5 * time.Second)
	f.mustTake(d)
}

func overdraftOfWindow(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.overdraft(3, rules.Band{Kind: rules.SlidingWindow, Capacity: 10, Refill: time.Minute})
	f.mustTake(d)
	if left := f.remaining(d); left != 7 {
		t.Errorf("%d of 10 tokens are left after an overdraft of 3, want 7", left)
	}
}
