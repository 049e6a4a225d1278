package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/calendar"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var kindChecks = []Check{
	{"quota comes back when its period ends and not before", quotaEnds},
	{"quota ends where the calendar says", quotaFollowsCalendar},
	{"quota ends by the store's clock, whatever calendar a gateway has", quotaKeepsItsEnd},
	{"quota carries consumption and debt over", quotaCarriesOver},
	{"quota gives nothing back across an edge", quotaGivesBack},
	{"window never hands out more than its capacity in any period", windowAgainstLogs},
	{"window gives back where it was taken", windowGivesBack},
	{"window counts on when the clock steps back", windowClockStepsBack},
	{"kinds in one rule are taken from together or not at all", kindsTogether},
	{"kinds other than token buckets cannot be waited for", kindsDoNotWait},
}

// now is the store's clock.
func (f *fixture) now() int64 {
	f.Helper()
	return f.peek(f.demand(0, band("", 1, 1, time.Second))).Results[0].Now
}

// quota is a demand on a fresh quota whose period began a time ago and ends after
// another. The next one is as long.
func (f *fixture) quota(cost, capacity int64, ago, after time.Duration) store.Demand {
	f.Helper()
	d := f.demand(cost, rules.Band{Label: "quota", Kind: rules.Quota, Capacity: capacity, Period: "month"})
	f.setEdges(&d.Bands[0], ago, after)
	return d
}

func (f *fixture) setEdges(b *store.ExactBand, ago, after time.Duration) {
	f.Helper()
	now := f.now()
	b.Edges = [3]int64{now - ago.Microseconds(), now + after.Microseconds(), now + (ago + 2*after).Microseconds()}
}

// withEdges is the demand of a gateway with another calendar.
func (f *fixture) withEdges(d store.Demand, ago, after time.Duration) store.Demand {
	d.Bands = append([]store.ExactBand(nil), d.Bands...)
	f.setEdges(&d.Bands[0], ago, after)
	return d
}

func (f *fixture) wantBand(out *store.Outcome, remaining int64, fullAfter time.Duration) {
	f.Helper()
	if got := out.Results[0].Bands[0]; got.Remaining != remaining || got.FullAfter != fullAfter {
		f.Fatalf("%d left and full after %v, want %d and %v", got.Remaining, got.FullAfter, remaining, fullAfter)
	}
}

func quotaEnds(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.quota(1, 5, 10*time.Second, 50*time.Second)
	for left := int64(4); left >= 0; left-- {
		f.wantBand(f.mustTake(d), left, 50*time.Second)
	}
	f.Advance(20 * time.Second)
	if wait := f.mustReject(d).Results[0].Wait; wait != 30*time.Second {
		t.Errorf("a wait of %v, want the 30s that are left of the period", wait)
	}
	f.Advance(30*time.Second - time.Microsecond)
	f.mustReject(d)
	f.Advance(time.Microsecond)
	f.wantBand(f.mustTake(d), 4, 60*time.Second) // the next period of the gateway
	f.Advance(time.Hour)
	f.wantBand(f.mustTake(d), 4, f.untilEdge(d))
	costly := d
	costly.Cost = 6
	if status := f.take(costly).Results[0].Status; status != store.TooCostly {
		t.Errorf("a cost above the capacity is %v", status)
	}
}

// untilEdge is how long until a period ends that is as long as the gateway's.
func (f *fixture) untilEdge(d store.Demand) time.Duration {
	edges := d.Bands[0].Edges
	length := edges[1] - edges[0]
	return time.Duration(length-(f.now()-edges[2])%length) * time.Microsecond
}

// quotaFollowsCalendar is about days of 23 and 25 hours, leap years, zones with half
// hours and weeks over new year.
func quotaFollowsCalendar(t testing.TB, b Backend) {
	f := newFixture(t, b)
	for _, c := range []struct {
		period    rules.Period
		zone, at  string
		end, next time.Duration // from the moment, and of the next period
	}{
		{"day", "Europe/Berlin", "2025-03-30T00:00:00+01:00", 23 * time.Hour, 24 * time.Hour},
		{"day", "Europe/Berlin", "2025-10-25T12:00:00+02:00", 12 * time.Hour, 25 * time.Hour},
		{"day", "America/New_York", "2025-11-02T00:30:00-04:00", 24*time.Hour + 30*time.Minute, 24 * time.Hour},
		{"day", "Asia/Kathmandu", "2025-05-01T00:00:00Z", 18*time.Hour + 15*time.Minute, 24 * time.Hour},
		{"hour", "Asia/Kolkata", "2025-05-01T00:00:00Z", 30 * time.Minute, time.Hour},
		{"week", "UTC", "2024-12-31T00:00:00Z", 6 * 24 * time.Hour, 7 * 24 * time.Hour},
		{"month", "UTC", "2024-01-31T23:59:59Z", time.Second, 29 * 24 * time.Hour},
		{"month", "Europe/Berlin", "2025-03-01T00:00:00+01:00", 31*24*time.Hour - time.Hour, 30 * 24 * time.Hour},
		{"year", "UTC", "2024-01-01T00:00:00Z", 366 * 24 * time.Hour, 365 * 24 * time.Hour},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := calendar.Zone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		f.Advance(time.Duration(at.UnixMicro()-f.now()) * time.Microsecond)
		d := f.demand(5, rules.Band{Kind: rules.Quota, Capacity: 5, Period: c.period, Timezone: c.zone})
		for i, edge := range calendar.Edges(c.period, zone, at) {
			d.Bands[0].Edges[i] = edge.UnixMicro()
		}
		f.wantBand(f.mustTake(d), 0, c.end)
		f.Advance(c.end - time.Microsecond)
		f.mustReject(d)
		f.Advance(time.Microsecond)
		f.wantBand(f.mustTake(d), 0, c.next)
	}
}

func quotaKeepsItsEnd(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.quota(5, 5, 0, time.Minute)
	f.mustTake(d)
	d.Cost = 1
	for name, other := range map[string]store.Demand{
		"ends earlier":           f.withEdges(d, 0, 10*time.Second),
		"ends later":             f.withEdges(d, 0, time.Hour),
		"is a day ahead":         f.withEdges(d, -24*time.Hour, 24*time.Hour+time.Minute),
		"is a day behind":        f.withEdges(d, 24*time.Hour, -24*time.Hour+time.Minute),
		"ended by another clock": f.withEdges(d, time.Minute, 0),
	} {
		if f.take(other).Admitted() {
			t.Fatalf("a gateway whose period %s resets the quota", name)
		}
	}
	f.Advance(11 * time.Second)
	f.mustReject(f.withEdges(d, 0, 10*time.Second))
	f.Advance(49 * time.Second)
	f.mustTake(f.withEdges(d, 0, 10*time.Second))
}

func quotaCarriesOver(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.quota(5, 10, 0, time.Minute)
	out := f.mustTake(d)
	larger := d
	larger.Bands = f.bands(rules.Band{Label: "quota", Kind: rules.Quota, Capacity: 30, Period: "year"})
	f.setEdges(&larger.Bands[0], 0, 100*time.Hour)
	larger.Cost = 0
	f.wantBand(f.peek(larger), 25, time.Minute) // a raise helps at once
	// Two versions of the rule alternate without a drift.
	for range 100 {
		f.take(larger)
		d.Cost = 0
		f.take(d)
	}
	f.wantBand(f.peek(d), 5, time.Minute)
	// Debt is paid by the next period.
	d.Cost = 5
	f.settle(12, out, d)
	if owed := f.peek(d).Results[0].Bands[0].Owed; owed != 2 {
		t.Errorf("%d are owed, want 2", owed)
	}
	f.Advance(time.Minute)
	if left := f.remaining(d); left != 8 {
		t.Errorf("%d left in the next period, want 8", left)
	}
	f.Advance(time.Minute)
	if left := f.remaining(d); left != 10 {
		t.Errorf("%d left in the period after, want 10", left)
	}
}

func quotaGivesBack(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.quota(5, 5, 0, time.Minute)
	out := f.mustTake(d)
	f.Advance(59 * time.Second)
	if s := f.settle(2, out, d); s.Returned != 3 {
		t.Errorf("%d came back in the period, want 3", s.Returned)
	}
	d.Cost = 3
	out = f.mustTake(d)
	f.Advance(time.Second)
	d.Cost = 4
	f.mustTake(d)
	d.Cost = 3
	if s := f.settle(0, out, d); s.Returned != 0 {
		t.Errorf("%d came back in the next period, want none", s.Returned)
	}
	if left := f.remaining(d); left != 1 {
		t.Errorf("%d left, want 1", left)
	}
}

// admission is an entry of a full log.
type admission struct{ at, cost int64 }

// within is what a log has in the time before a moment.
func within(log []admission, now int64, length time.Duration) (sum int64) {
	for _, a := range log {
		if a.at > now-length.Microseconds() {
			sum += a.cost
		}
	}
	return sum
}

func windowAgainstLogs(t testing.TB, b Backend) {
	f := newFixture(t, b)
	r := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		capacity, length := 1+r.Int64N(40), 16*time.Millisecond<<r.IntN(4)
		d := f.demand(1, rules.Band{Kind: rules.SlidingWindow, Capacity: capacity, Refill: length})
		var log []admission
		for range 100 {
			f.Advance(time.Duration(r.Int64N(length.Microseconds()/8)) * time.Microsecond)
			d.Cost = 1 + r.Int64N(1+capacity/4)
			out := f.take(d)
			now := out.Results[0].Now
			switch {
			case out.Admitted():
				if sum := within(log, now, length) + d.Cost; sum > capacity {
					t.Fatalf("%d of %d in %v", sum, capacity, length)
				}
				log = append(log, admission{now, d.Cost})
			case within(log, now, length*17/16)+d.Cost <= capacity:
				t.Fatalf("refused, though %d of %d were taken in %v", within(log, now, length*17/16), capacity, length*17/16)
			default:
				f.checkWindowWait(d, log, out)
			}
		}
	}
}

// checkWindowWait fails unless the wait of a refusal is long enough.
func (f *fixture) checkWindowWait(d store.Demand, log []admission, out *store.Outcome) {
	f.Helper()
	result := out.Results[0]
	then := result.Now + result.Wait.Microseconds()
	if sum := within(log, then, d.Bands[0].Period) + d.Cost; sum > d.Bands[0].Capacity {
		f.Fatalf("%d of %d in %v after the wait of %v", sum, d.Bands[0].Capacity, d.Bands[0].Period, result.Wait)
	}
}

func windowGivesBack(t testing.TB, b Backend) {
	f := newFixture(t, b)
	const slot = time.Second
	d := f.demand(4, rules.Band{Kind: rules.SlidingWindow, Capacity: 10, Refill: 16 * slot})
	f.Advance(slot - time.Duration(f.now()%slot.Microseconds())*time.Microsecond) // to the begin of a slot
	first := f.mustTake(d)
	f.Advance(8 * slot)
	d.Cost = 6
	f.mustTake(d)
	d.Cost = 4
	if s := f.settle(1, first, d); s.Returned != 3 {
		t.Errorf("%d came back, want 3", s.Returned)
	}
	f.wantBand(f.peek(d), 3, 17*slot)
	f.Advance(9 * slot) // the first slot has left, with what was not given back
	f.wantBand(f.peek(d), 4, 8*slot)
	if s := f.settle(0, first, d); s.Returned != 0 {
		t.Errorf("%d came back that had come back already", s.Returned)
	}
}

func windowClockStepsBack(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, rules.Band{Kind: rules.SlidingWindow, Capacity: 5, Refill: 16 * time.Second})
	f.Advance(time.Second - time.Duration(f.now()%1_000_000)*time.Microsecond)
	f.drain(d)
	f.Advance(-time.Hour - time.Microsecond)
	f.mustReject(d) // adopts the clock
	f.Advance(16 * time.Second)
	f.mustReject(d)
	f.Advance(2*time.Second + time.Microsecond)
	f.mustTake(d)
}

func kindsTogether(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1,
		rules.Band{Label: "quota", Kind: rules.Quota, Capacity: 6, Period: "day"},
		band("bucket", 4, 1, time.Hour),
		rules.Band{Label: "window", Kind: rules.SlidingWindow, Capacity: 5, Refill: 16 * time.Second},
		rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 2, Hold: time.Hour})
	d = again(d)
	f.setEdges(&d.Bands[0], 0, time.Hour)
	left := func(want ...int64) {
		t.Helper()
		free := d
		free.Cost = 0
		for i, b := range f.peek(free).Results[0].Bands {
			if b.Remaining != want[i] {
				t.Fatalf("band %d has %d left, want %v", i, b.Remaining, want)
			}
		}
	}
	f.mustTake(d)
	left(5, 3, 4, 1)
	d = again(d)
	other := f.quota(3, 2, 0, time.Hour) // can never pass
	f.mustReject(d, other)
	left(5, 3, 4, 1)
	d.Cost = 4
	f.mustReject(d) // the bucket has 3
	left(5, 3, 4, 1)
	d.Cost = 1
	shadow := other
	shadow.Shadow = true
	out := f.mustTake(d, shadow)
	left(4, 2, 3, 0)
	f.mustReject(again(d)) // no slot
	left(4, 2, 3, 0)
	f.settle(0, out, d)
	left(5, 3, 4, 1)
	// All can be reset.
	f.mustTake(again(d))
	f.reset(d.Key)
	left(6, 4, 5, 2)
}

func kindsDoNotWait(t testing.TB, b Backend) {
	f := newFixture(t, b)
	for _, d := range []store.Demand{
		f.quota(1, 1, 0, time.Second),
		f.demand(1, rules.Band{Kind: rules.SlidingWindow, Capacity: 1, Refill: 16 * time.Millisecond}),
	} {
		d.MaxWait = time.Minute
		f.mustTake(d)
		if result := f.mustReject(d).Results[0]; result.Wait <= 0 || result.Wait > time.Second {
			t.Errorf("a wait of %v, want one until it fits", result.Wait)
		}
	}
}
