package storetest

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var countingChecks = []Check{
	{"counting refused hits: over is what passes the capacity", countingOver},
	{"counting refused hits: each period begins at 0", countingPeriods},
	{"counting refused hits: a refused request counts where it is over", countingWhereOver},
	{"counting refused hits: alternatives reject if all are over", countingAlternatives},
	{"a request that is rejected already is debited, and takes nothing", countingRejected},
}

// counting is a demand of a quota that counts refused hits.
func (f *fixture) counting(cost, capacity int64) store.Demand {
	f.Helper()
	d := f.quota(cost, capacity, 10*time.Second, 50*time.Second)
	d.Bands[0] = d.Bands[0].CountRefused()
	return d
}

// with is the demand with another cost.
func with(d store.Demand, cost int64) store.Demand {
	d.Cost = cost
	return d
}

// wantCounted compares what is counted, and the tokens of the receipt.
func (f *fixture) wantCounted(out *store.Outcome, granted, count int64) {
	f.Helper()
	for i := range out.Results {
		if r := &out.Results[i]; r.Granted != granted || r.Bands[0].Owed-r.Bands[0].Remaining != count {
			f.Errorf("demand %d: granted %d, and %d beyond the capacity; want %d and %d",
				i, r.Granted, r.Bands[0].Owed-r.Bands[0].Remaining, granted, count)
		}
	}
}

func countingOver(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.counting(8, 10)
	f.wantCounted(f.mustTake(d), 8, -2)
	f.wantCounted(f.mustTake(with(d, 2)), 2, 0)
	f.wantCounted(f.mustTake(with(d, 0)), 0, 0) // at the capacity a look passes
	out := f.mustReject(with(d, 5))
	f.wantCounted(out, 5, 5)
	if wait := out.Results[0].Wait; wait != 50*time.Second {
		t.Errorf("a wait of %v, want the 50s that are left of the period", wait)
	}
	f.wantCounted(f.mustReject(with(d, 0)), 0, 5)
	if s := f.settle(0, out, with(d, 5)); s.Returned != 5 {
		t.Errorf("settling 5 refused hits at 0 returns %d", s.Returned)
	}
	out = f.mustReject(with(d, 1_000)) // far above what a debt may be
	if f.wantCounted(out, 1_000, 1_000); out.Results[0].Status != store.TooCostly {
		t.Errorf("a cost above the capacity is %v", out.Results[0].Status)
	}
	f.wantCounted(f.peek(with(d, 3)), 3, 1_000)
	if s := f.settle(300, out, with(d, 1_000)); s.Returned != 700 {
		t.Errorf("settling 1,000 refused hits at 300 returns %d", s.Returned)
	}
	f.wantCounted(f.peek(with(d, 0)), 0, 300)
}

func countingPeriods(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.counting(25, 10)
	f.wantCounted(f.mustReject(d), 25, 15)
	f.Advance(50*time.Second - time.Microsecond)
	f.mustReject(with(d, 0))
	f.Advance(time.Microsecond)
	f.wantCounted(f.mustTake(with(d, 10)), 10, 0)
}

func countingWhereOver(t testing.TB, b Backend) {
	f := newFixture(t, b)
	over, fits, plain := f.counting(6, 5), f.counting(6, 10), f.quota(6, 10, 10*time.Second, 50*time.Second)
	measured := f.counting(6, 5)
	measured.Shadow = true
	f.mustReject(over, fits, plain, measured)
	f.wantCounted(f.peek(with(over, 0)), 0, 1)
	f.wantCounted(f.peek(with(measured, 0)), 0, 1)
	f.wantCounted(f.peek(with(fits, 0)), 0, -10)
	f.wantCounted(f.peek(with(plain, 0)), 0, -10)
	f.mustTake(fits, plain, measured)
	f.wantCounted(f.peek(with(measured, 0)), 0, 7)
	// What fits by itself is not counted beside a demand of another sort that rejects.
	f.mustReject(with(fits, 2), plain)
	f.wantCounted(f.peek(with(fits, 0)), 0, -4)
}

func countingAlternatives(t testing.TB, b Backend) {
	f := newFixture(t, b)
	small, large, other := f.counting(4, 5), f.counting(4, 10), f.counting(1, 10)
	small.Alternative, large.Alternative = true, true
	f.mustTake(small, large, other) // 4, 4, 1
	f.mustTake(small, large, other) // 8 of 5, 8, 2
	out := f.mustReject(small, large, other)
	if out.Results[2].Granted != 0 {
		t.Errorf("a refused request counts %d where it is not over", out.Results[2].Granted)
	}
	f.wantCounted(f.peek(with(small, 0)), 0, 7)
	f.wantCounted(f.peek(with(large, 0)), 0, 2)
	f.wantCounted(f.peek(with(other, 0)), 0, -8)
	f.mustTake(other)
}

// countingRejected has the most demands of a request, of all kinds.
func countingRejected(t testing.TB, b Backend) {
	f := newFixture(t, b)
	over, fits, plain, overdraft := f.counting(6, 5), f.counting(6, 10), f.demand(6, rules.PerDay(10)), f.demand(15, rules.PerDay(10))
	measured, alternative := f.counting(6, 5), f.counting(6, 10)
	overdraft.Overdraft, measured.Shadow, alternative.Alternative = true, true, true
	all := []store.Demand{over, fits, plain, overdraft, measured, alternative}
	for len(all) < store.MaxMatches {
		all = append(all, f.counting(6, 5))
	}
	for i := range all {
		all[i].DebitOnly = true
	}
	out := f.mustReject(all...)
	for i := range all {
		want := int64(6)
		switch i {
		case 1, 2, 5:
			want = 0 // it fits
		case 3:
			want = 15
		}
		if got := out.Results[i].Granted; got != want {
			t.Errorf("demand %d of a rejected request is debited %d, want %d", i, got, want)
		}
	}
	f.wantCounted(f.peek(with(over, 0)), 0, 1)
	f.wantCounted(f.peek(with(measured, 0)), 0, 1)
	f.wantCounted(f.peek(with(all[63], 0)), 0, 1)
	f.wantCounted(f.peek(with(fits, 0)), 0, -10)
	f.wantCounted(f.peek(with(alternative, 0)), 0, -10)
	f.wantCounted(f.peek(with(plain, 0)), 0, -10)
	overdraft.Overdraft = false
	f.wantCounted(f.peek(with(overdraft, 0)), 0, 5)
	all[1].DebitOnly = false
	if err := f.Store.Take(t.Context(), all, out); err == nil {
		t.Error("only some demands of a request belong to a rejected one")
	}
}
