package storetest

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// ruleChangeChecks are about gateways that have different versions of a rule.
var ruleChangeChecks = []Check{
	{"I6 a band that is not asked for keeps its state", bandsNotAskedFor},
	{"I6 versions that alternate hand out a capacity each at most", alternationIsBounded},
	{"I6 what is given back follows a change", giveBackFollows},
	{"I6 nothing comes back to another window after a take has left its own", leftItsWindow},
	{"I6 a caller does not wait for the former numbers", formerNumbersDoNotBlock},
	{"I6 quotas and windows carry the number that is used", countsCarryTheNumber},
	{"I6 what exceeds a lowered quota is no debt", loweredQuotaIsNoDebt},
	{"I6 a slot ends when it was given to, whatever the hold is now", slotsKeepTheirEnd},
}

func bandsNotAskedFor(t testing.TB, b Backend) {
	f := newFixture(t, b)
	minute, day := band("minute", 100, 100, time.Minute), band("day", 100, 100, 24*time.Hour)
	both := f.demand(90, minute, day)
	f.mustTake(both)
	one := both
	one.Bands, one.Cost = f.bands(band("minute", 1_000, 1_000, time.Minute)), 1
	for range 5 {
		f.mustTake(one)
		f.Advance(time.Second)
	}
	both.Cost = 1
	if left := f.peek(both).Results[0].Bands[1].Remaining; left != 10 {
		t.Errorf("a gateway does not know a band of the rule: %d of 100 are left in it, want 10", left)
	}
}

func alternationIsBounded(t testing.TB, b Backend) {
	for _, c := range []struct{ a, b rules.Band }{
		{band("x", 1_000, 1_000, time.Hour), band("x", 10, 10, time.Second)},
		{band("x", 1_000, 10, time.Second), band("x", 10, 10, time.Second)},
		{band("old", 1_000, 1_000, time.Hour), band("new", 10, 10, time.Second)},
		{band("x", 1_000, 1_000, time.Hour), rules.Band{Label: "x", Kind: rules.SlidingWindow, Capacity: 10, Refill: time.Second}},
	} {
		f := newFixture(t, b)
		d := f.demand(1, c.a)
		versions := [][]store.ExactBand{d.Bands, f.bands(c.b)}
		var admitted [2]int64
		for range 30 {
			for i, bands := range versions {
				d.Bands = bands
				admitted[i] += f.drain(d)
			}
			f.Advance(time.Second)
		}
		for i, version := range []rules.Band{c.a, c.b} {
			most := version.Capacity + version.Tokens()*int64(30*time.Second)/int64(version.Refill)
			if admitted[i] > most {
				t.Errorf("two versions take turns for 30 s: %d admitted by %d per %v, at most %d are due",
					admitted[i], version.Tokens(), version.Refill, most)
			}
		}
	}
}

func leftItsWindow(t testing.TB, b Backend) {
	f := newFixture(t, b)
	window := func(period time.Duration) rules.Band {
		return rules.Band{Label: "x", Kind: rules.SlidingWindow, Capacity: 30, Refill: period}
	}
	short := f.demand(2, window(16*time.Second))
	out := f.mustTake(short)
	f.Advance(18 * time.Second) // it has left
	long := short
	long.Bands, long.Cost = f.bands(window(time.Hour)), 20
	f.mustTake(long)
	before := f.peek(long).Results[0].Bands[0].Remaining
	if s := f.settle(0, out, short); s.Returned != 0 {
		t.Errorf("%d tokens come back to a window of another period after the take has left its own, want 0", s.Returned)
	}
	if left := f.peek(long).Results[0].Bands[0].Remaining; left != before {
		t.Errorf("%d of 30 tokens are left, want %d", left, before)
	}
}

func giveBackFollows(t testing.TB, b Backend) {
	f := newFixture(t, b)
	small := f.demand(4_000, band("x", 10_000, 10_000, time.Hour))
	out := f.mustTake(small)
	f.Advance(time.Millisecond)
	large := small
	large.Bands, large.Cost = f.bands(band("x", 100_000, 100_000, time.Hour)), 10
	f.mustTake(large)
	if s := f.settle(100, out, small); s.Returned != 3_900 {
		t.Errorf("%d came back of 3,900", s.Returned)
	}
	if left := f.remaining(large); left != 98_990 {
		t.Errorf("%d of 100,000 are left after 1 %% and 10 were used, want 98,990", left)
	}
	if left := f.remaining(small); left != 9_899 {
		t.Errorf("%d of 10,000 are left under the former numbers, want 9,899", left)
	}
}

func formerNumbersDoNotBlock(t testing.TB, b Backend) {
	f := newFixture(t, b)
	for _, c := range []struct{ from, to rules.Band }{
		{band("x", 10, 10, 24*time.Hour), band("x", 10, 10, time.Second)},
		{band("x", 10, 10, 24*time.Hour), rules.Band{Label: "x", Kind: rules.SlidingWindow, Capacity: 10, Refill: time.Second}},
		{rules.Band{Label: "x", Kind: rules.SlidingWindow, Capacity: 10, Refill: 24 * time.Hour}, band("x", 10, 10, time.Second)},
	} {
		d := f.demand(10, c.from)
		f.mustTake(d)
		d.Bands, d.Cost = f.bands(c.to), 1
		f.mustReject(d)
		f.Advance(2 * time.Second)
		f.mustTake(d)
	}
}

func countsCarryTheNumber(t testing.TB, b Backend) {
	f := newFixture(t, b)
	quota := func(n int64) store.Demand { return f.quota(0, n, 0, time.Hour) }
	window := func(n int64) store.Demand {
		return f.demand(0, rules.Band{Label: "x", Kind: rules.SlidingWindow, Capacity: n, Refill: time.Hour})
	}
	for name, version := range map[string]func(n int64) store.Demand{"quota": quota, "window": window} {
		d := version(500)
		at := func(n, cost int64) store.Demand {
			other := version(n)
			other.Key, other.Cost = d.Key, cost
			return other
		}
		out := f.mustTake(at(500, 400))
		for _, c := range []struct{ capacity, left int64 }{{5_000, 4_600}, {500, 100}, {450, 50}, {100, 0}, {5_000, 4_600}} {
			if left := f.remaining(at(c.capacity, 0)); left != c.left {
				t.Errorf("400 of a %s of 500 were used: %d of %d are left, want %d", name, left, c.capacity, c.left)
			}
		}
		f.mustTake(at(5_000, 1))
		if s := f.settle(100, out, at(500, 400)); s.Returned != 300 {
			t.Errorf("%d of 300 came back to a %s whose capacity has changed", s.Returned, name)
		}
		if left := f.remaining(at(5_000, 0)); left != 4_899 {
			t.Errorf("%d of a %s of 5,000 are left, want 4,899", left, name)
		}
	}
}

func loweredQuotaIsNoDebt(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.quota(400, 500, 0, time.Minute)
	f.mustTake(d)
	lower := f.quota(1, 100, 0, time.Minute)
	lower.Key = d.Key
	f.mustReject(lower)
	d.Cost = 10
	f.mustTake(d) // by a gateway that has the higher one
	f.Advance(time.Minute)
	lower = f.withEdges(lower, 0, time.Minute)
	if left := f.remaining(lower); left != 100 {
		t.Errorf("%d of 100 are left in the next period, want all", left)
	}
}

func slotsKeepTheirEnd(t testing.TB, b Backend) {
	f := newFixture(t, b)
	slots := func(hold time.Duration) rules.Band {
		return rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 2, Hold: hold}
	}
	long := again(f.demand(1, slots(10*time.Minute)))
	short := long
	short.Bands = f.bands(slots(time.Second))
	f.mustTake(long)
	f.mustTake(again(short)) // is lost
	f.Advance(2 * time.Second)
	f.mustTake(again(short))
	f.Advance(2 * time.Second)
	f.mustTake(again(short))
	f.mustReject(again(short))
	f.mustReject(again(long))
	f.Advance(10 * time.Minute)
	f.mustTake(again(long))
	f.mustTake(again(long))
}
