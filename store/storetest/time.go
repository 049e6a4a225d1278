package storetest

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var expiryChecks = []Check{
	{"I5 a bucket is remembered until it is full", rememberedUntilFull},
	{"I5 the time until full is exact", fullAfterIsExact},
}

var changeChecks = []Check{
	{"I6 a rule change is not a refill", changeIsNoRefill},
	{"I6 debt is cut to the largest of the new rate", debtOfAnotherRate},
	{"I6 two versions of a rule may alternate", versionsAlternate},
	{"I6 consumption follows a band that moves within its rule", consumptionFollowsLabel},
}

var clockChecks = []Check{
	{"I8 the clock is known before the first decision", clockIsKnown},
	{"I8 a clock that steps back makes no token", stepBackMakesNoToken},
	{"I8 a clock that stepped back runs on from there", stepBackIsAdopted},
}

// clockIsKnown: a gateway computes the periods of quotas by it, also for its first request.
func clockIsKnown(t testing.TB, b Backend) {
	f := newFixture(t, b)
	gateway := f.Store
	if f.Gateway != nil {
		gateway = f.Gateway(t)
	}
	known := gateway.Now()
	decided := time.UnixMicro(f.mustTake(f.demand(1, band("", 5, 5, time.Second))).Results[0].Now)
	if apart := decided.Sub(known).Abs(); apart > time.Minute {
		t.Errorf("the clock was %v before the first decision, and %v decided", known, decided)
	}
}

func rememberedUntilFull(t testing.TB, b Backend) {
	day := 24 * time.Hour
	for _, period := range []time.Duration{time.Millisecond, time.Second, time.Hour, 7 * day, 366 * day} {
		f := newFixture(t, b)
		d := f.demand(10, band("", 10, 10, period))
		f.mustTake(d)
		// A tenth comes back with every tenth of the period, also without
		// requests.
		f.Advance(period * 9 / 10)
		if left := f.remaining(d); left != 9 {
			t.Errorf("10 per %v used up: %d left after nine tenths of it, want 9", period, left)
		}
		f.mustReject(d)
		f.Advance(period - period*9/10)
		f.mustTake(d)
	}
}

func fullAfterIsExact(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(3, band("a", 4, 1, time.Second), band("b", 100, 100, time.Minute))
	out := f.mustTake(d)
	for i, want := range []time.Duration{3 * time.Second, 1800 * time.Millisecond} {
		if got := out.Results[0].Bands[i].FullAfter; got != want {
			t.Errorf("band %d is full after %v, want %v", i, got, want)
		}
	}
}

func changeIsNoRefill(t testing.TB, b Backend) {
	for _, c := range []struct {
		name     string
		from, to rules.Band
		used     int64
		want     int64 // left under the new numbers
	}{
		{"a larger capacity", band("x", 100, 100, time.Hour), band("x", 1_000, 1_000, time.Hour), 100, 0},
		{"a larger capacity, half used", band("x", 100, 100, time.Hour), band("x", 1_000, 1_000, time.Hour), 50, 500},
		{"a smaller capacity", band("x", 1_000, 1_000, time.Hour), band("x", 10, 10, time.Hour), 500, 5},
		{"rounded against the caller", band("x", 100, 100, time.Hour), band("x", 3, 3, time.Hour), 1, 2},
		{"another period", band("x", 100, 100, time.Minute), band("x", 100, 100, time.Hour), 70, 30},
		{"another rate", band("x", 100, 1, time.Hour), band("x", 100, 100, time.Hour), 99, 1},
	} {
		f := newFixture(t, b)
		d := f.demand(c.used, c.from)
		f.mustTake(d)
		d.Bands = f.bands(c.to)
		if left := f.remaining(d); left != c.want {
			t.Errorf("%s: %d left, want %d", c.name, left, c.want)
		}
		if n := f.drain(d); n != c.want {
			t.Errorf("%s: %d more could be taken, want %d", c.name, n, c.want)
		}
	}
}

func debtOfAnotherRate(t testing.TB, b Backend) {
	f := newFixture(t, b)
	fast := f.demand(1, band("x", 1, 3, time.Second))
	f.settle(1<<40, f.mustTake(fast), fast)
	slow := fast
	slow.Bands = f.bands(band("x", 1, 1, time.Second))
	full := time.Duration(slow.Bands[0].Max/slow.Bands[0].Rate) * time.Microsecond
	if got := f.peek(slow).Results[0].Bands[0].FullAfter; got != full {
		t.Errorf("full after %v, want %v", got, full)
	}
	f.Advance(full)
	if left := f.mustTake(slow).Results[0].Bands[0].Remaining; left != 0 {
		t.Errorf("%d left, want 0", left)
	}
}

func versionsAlternate(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("x", 1_000, 1_000, time.Hour))
	older, newer := d.Bands, f.bands(band("x", 3_000, 700, time.Hour))
	// 600 requests, 300 by each: 300 of 1,000 and 300 of 3,000 are 40 %.
	for i := range 600 {
		d.Bands = older
		if i%2 == 1 {
			d.Bands = newer
		}
		f.mustTake(d)
	}
	d.Bands = older
	if left := f.remaining(d); left != 599 && left != 600 {
		t.Errorf("%d of 1,000 left after 300 requests by each of two versions, want 600 and at most one less", left)
	}
}

func consumptionFollowsLabel(t testing.TB, b Backend) {
	f := newFixture(t, b)
	minute, hour := band("minute", 10, 10, time.Minute), band("hour", 100, 100, time.Hour)
	d := f.demand(10, minute, hour)
	f.mustTake(d)
	d.Cost = 0
	d.Bands = f.bands(band("second", 10, 10, time.Second), hour, minute)
	for i, want := range []int64{10, 90, 0} {
		if got := f.peek(d).Results[0].Bands[i].Remaining; got != want {
			t.Errorf("with a new band in front and the others swapped, band %d has %d left, want %d", i, got, want)
		}
	}

	// Without labels bands are known by their places. Slots in front of one are no version of it.
	slots, tokens := rules.Band{Kind: rules.Concurrency, Capacity: 2, Hold: time.Minute}, band("", 10, 10, time.Hour)
	d = again(f.demand(2, tokens))
	for left, bands := range [][]store.ExactBand{d.Bands, f.bands(slots, tokens), d.Bands, f.bands(slots, tokens)} {
		d.Bands = bands
		if got, want := f.mustTake(again(d)).Results[0].Bands[len(bands)-1].Remaining, int64(8-2*left); got != want {
			t.Errorf("%d tokens left after take %d, with a concurrency limit in front of every other, want %d", got, left+1, want)
		}
	}
}

func stepBackMakesNoToken(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 5, 5, time.Hour))
	f.drain(d)
	for range 5 {
		f.Advance(-10 * time.Minute)
		f.mustReject(d)
	}
	if left := f.remaining(d); left != 0 {
		t.Errorf("%d tokens after the clock stepped back, want 0", left)
	}
	f.Advance(50 * time.Minute)
}

func stepBackIsAdopted(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 1, 1, time.Minute))
	f.mustTake(d)
	f.Advance(-time.Hour)
	f.mustReject(d)
	f.Advance(time.Minute - time.Microsecond)
	f.mustReject(d)
	f.Advance(time.Microsecond)
	f.mustTake(d)
	f.Advance(time.Hour)
}
