package storetest

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var settleChecks = []Check{
	{"settle gives back at once what was not used", settleGivesBack},
	{"settle charges what was used beyond", settleCharges},
	{"settle takes one actual cost for each take", settleEach},
	{"settle charges into bounded debt", settleDebtIsBounded},
	{"settle gives back less the later it comes", settleAfterAWhile},
	{"settle of a withdrawn wait gives back the last in the queue", settleWithdrawnWait},
	{"settle gives nothing back to a bucket that was forgotten", settleForgotten},
	{"settle gives nothing back where the rule has changed, and charges", settleAfterAChange},
	{"settle leaves the record of another label alone", settleAnotherLabel},
	{"settle of a receipt of nothing is refused", settleOfNothing},
	{"I1 settle never lets tokens be handed out twice", settleNeverCreates},
}

func settleGivesBack(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(80, band("a", 100, 1, time.Hour), band("b", 200, 1, time.Hour))
	out := f.mustTake(d)
	s := f.settle(30, out, d)
	if s.Returned != 50 || s.Charged != 0 {
		t.Errorf("settling 80 at 30 is %+v, want 50 returned", s)
	}
	d.Cost = 0
	for i, want := range []int64{70, 170} {
		if got := f.peek(d).Results[0].Bands[i].Remaining; got != want {
			t.Errorf("band %d has %d left, want %d", i, got, want)
		}
	}
	d.Cost = 10
	out = f.mustTake(d)
	if s := f.settle(10, out, d); s.Returned != 0 || s.Charged != 0 {
		t.Errorf("settling at the same cost is %+v, want nothing", s)
	}
	if left := f.remaining(d); left != 60 {
		t.Errorf("%d left, want 60", left)
	}
}

// settleEach: a request that costs one request, 900 tokens and 20 cents.
func settleEach(t testing.TB, b Backend) {
	f := newFixture(t, b)
	requests := f.demand(1, band("", 100, 1, time.Hour))
	tokens := f.demand(500, band("", 10_000, 1, time.Hour))
	cents := f.demand(50, band("", 1_000, 1, time.Hour))
	demands := []store.Demand{requests, tokens, cents}
	settled := f.settleEach(store.NewTakes(demands, f.mustTake(demands...)), 1, 900, 20)
	for i, want := range []store.Settlement{{}, {Charged: 400}, {Returned: 30}} {
		if settled[i].Returned != want.Returned || settled[i].Charged != want.Charged {
			t.Errorf("take %d is settled by %+v, want %+v", i, settled[i], want)
		}
	}
	for i, want := range []int64{99, 9_100, 980} {
		if left := f.remaining(demands[i]); left != want {
			t.Errorf("bucket %d has %d left, want %d", i, left, want)
		}
	}
}

func settleOfNothing(t testing.TB, b Backend) {
	f := newFixture(t, b)
	for name, takes := range map[string]store.Takes{
		"none":                    nil,
		"an empty list":           {},
		"one without bands":       {{Cost: 1}},
		"one with too many bands": {{Cost: 1, Bands: make([]store.ExactBand, store.MaxBands+1)}},
	} {
		if s, err := f.Store.Settle(f.Context(), takes, takes.Same(1)); !errors.Is(err, store.ErrDemand) {
			t.Errorf("settling takes, %s: %+v, %v; want %v", name, s, err, store.ErrDemand)
		}
	}
	d := f.demand(1, band("", 5, 5, time.Hour))
	takes := store.NewTakes([]store.Demand{d}, f.mustTake(d))
	for _, actual := range [][]int64{{-1}, {}, {1, 1}} {
		if s, err := f.Store.Settle(f.Context(), takes, actual); !errors.Is(err, store.ErrDemand) {
			t.Errorf("settling one take at the costs %d: %+v, %v; want %v", actual, s, err, store.ErrDemand)
		}
	}
}

func settleCharges(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(10, band("", 100, 1, time.Hour))
	out := f.mustTake(d)
	if s := f.settle(60, out, d); s.Charged != 50 || s.Returned != 0 {
		t.Errorf("settling 10 at 60 is %+v, want 50 charged", s)
	}
	if band := f.peek(d).Results[0].Bands[0]; band.Remaining != 40 || band.Owed != 0 {
		t.Errorf("%d left and %d owed, want 40 and none", band.Remaining, band.Owed)
	}
	// Into debt: the next token is there when the debt is paid.
	out = f.mustTake(d)
	f.settle(60, out, d)
	d.Cost = 1
	rejected := f.mustReject(d).Results[0]
	if got := rejected.Wait; got != 21*time.Hour {
		t.Errorf("with a debt of 20 a token is there in %v, want 21h", got)
	}
	if owed := rejected.Bands[0].Owed; owed != 20 {
		t.Errorf("with a debt of 20, %d tokens are owed", owed)
	}
	d.Cost = 0
	if owed := f.peek(d).Results[0].Bands[0].Owed; owed != 20 {
		t.Errorf("with a debt of 20, a peek sees %d owed", owed)
	}
}

func settleDebtIsBounded(t testing.TB, b Backend) {
	for _, actual := range []int64{1_000_000, store.MaxCost} {
		f := newFixture(t, b)
		d := f.demand(1, band("", 10, 10, time.Hour))
		out := f.mustTake(d)
		s := f.settle(actual, out, d)
		most := d.Bands[0].Max/d.Bands[0].Unit - 1
		if s.Charged != most {
			t.Errorf("settling 1 at %d charges %d, want the %d of the largest debt", actual, s.Charged, most)
		}
		full := f.peek(d).Results[0].Bands[0].FullAfter
		if want := time.Duration(d.Bands[0].Max/d.Bands[0].Rate) * time.Microsecond; full > want+time.Microsecond {
			t.Errorf("full after %v, the largest debt is paid in %v", full, want)
		}
	}
}

func settleAfterAWhile(t testing.TB, b Backend) {
	// 10 taken, none used. After e seconds the bucket may have overflowed by
	// e tokens: 10 − e come back.
	for elapsed := range int64(12) {
		f := newFixture(t, b)
		d := f.demand(10, band("", 20, 1, time.Second))
		out := f.mustTake(d)
		f.Advance(time.Duration(elapsed) * time.Second)
		// Other requests use up the bucket meanwhile.
		used := f.drain(d)
		if want := 10 + min(elapsed, 10); used != want {
			t.Fatalf("%d tokens after %d s, want %d", used, elapsed, want)
		}
		f.settle(0, out, d)
		if left, want := f.remaining(d), max(0, 10-elapsed); left != want {
			t.Errorf("%d came back after %d s, want %d", left, elapsed, want)
		}
	}
}

func settleWithdrawnWait(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 1, 1, time.Second))
	f.mustTake(d)
	d.MaxWait = time.Minute
	first, last := f.mustTake(d), f.mustTake(d)
	// A request waits behind the first: nothing may come back, or two would be
	// served at one tick.
	if s := f.settle(0, first, d); s.Returned != 0 {
		t.Errorf("a place in the middle of the queue gave %d back, want 0", s.Returned)
	}
	if s := f.settle(0, last, d); s.Returned != 1 {
		t.Errorf("the last place in the queue gave %d back, want 1", s.Returned)
	}
	if got := f.mustTake(d).Results[0].Wait; got != 2*time.Second {
		t.Errorf("the next one waits %v, want 2s", got)
	}
}

func settleForgotten(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(5, band("", 5, 5, time.Second))
	out := f.mustTake(d)
	f.Advance(time.Hour)
	f.settle(0, out, d)
	if n := f.drain(d); n != 5 {
		t.Errorf("a full bucket of 5 gave %d", n)
	}
}

// settleAfterAChange: under the new numbers the bucket may have overflowed by
// more than the receipt shows.
func settleAfterAChange(t testing.TB, b Backend) {
	f := newFixture(t, b)
	slow := f.demand(10, band("x", 10, 10, 24*time.Hour))
	out := f.mustTake(slow)
	quick := slow
	quick.Bands = f.bands(band("x", 10, 10, time.Second))
	f.Advance(time.Second)
	f.mustTake(quick)
	f.settle(0, out, slow) // the bucket was full in between
	quick.Cost = 1
	f.mustReject(quick)
	if s := f.settle(12, out, slow); s.Charged != 2 {
		t.Errorf("charged %d, want 2", s.Charged)
	}
}

// settleAnotherLabel: a band got a label, and the record of the take was reset or has expired.
// The record at its position is not that of the take.
func settleAnotherLabel(t testing.TB, b Backend) {
	for _, kind := range []rules.BandKind{rules.TokenBucket, rules.Quota, rules.SlidingWindow} {
		for _, actual := range []int64{0, 9} {
			f := newFixture(t, b)
			ten := rules.Band{Kind: kind, Capacity: 10, Refill: time.Hour}
			if kind == rules.Quota {
				ten.Refill, ten.Period = 0, "month"
			}
			before := f.withEdges(f.demand(5, ten), 0, time.Hour)
			now := before
			ten.Label = "x"
			now.Bands = f.bands(ten)
			now = f.withEdges(now, 0, time.Hour)
			out := f.mustTake(before)
			f.reset(before.Key)
			f.mustTake(now)
			f.settle(actual, out, before)
			if left := f.remaining(now); left != 5 {
				t.Errorf("%s: settling a take of 5 of another label at %d left %d of 5", kind, actual, left)
			}
		}
	}
}

// handedOut are tokens at the tick they are due.
type handedOut struct{ due, tokens int64 }

// settleNeverCreates plays random histories of takes, waits and give-backs
// and counts what was handed out in every interval.
func settleNeverCreates(t testing.TB, b Backend) {
	for seed := range uint64(40) {
		f := newFixture(t, b)
		r := rand.New(rand.NewPCG(seed, 13))
		capacity := 1 + r.Int64N(4)
		d := f.demand(1, band("", capacity, 1+r.Int64N(3), time.Second))
		var events []handedOut
		var outs []*store.Outcome
		var demands []store.Demand
		for range 50 {
			f.Advance(time.Duration(r.Int64N(int64(time.Second))).Truncate(time.Microsecond))
			if len(outs) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(outs))
				if outs[i] == nil {
					continue
				}
				actual := r.Int64N(demands[i].Cost)
				f.settle(actual, outs[i], demands[i])
				events[i].tokens, outs[i] = actual, nil
				continue
			}
			d.Cost = 1 + r.Int64N(capacity)
			d.MaxWait = time.Duration(r.Int64N(int64(10 * time.Second)))
			if out := f.take(d); out.Admitted() {
				result := out.Results[0]
				events = append(events, handedOut{result.Now + result.Wait.Microseconds(), d.Cost})
				outs, demands = append(outs, out), append(demands, d)
			}
		}
		if from, to, tokens, most := tooMany(d.Bands[0], events); tokens > most {
			t.Fatalf("history %d: %d units handed out between %d and %d, at most %d are due", seed, tokens, from, to, most)
		}
	}
}

// tooMany finds the interval with the most units above capacity + R·T/D.
func tooMany(b store.ExactBand, events []handedOut) (from, to, units, most int64) {
	events = slices.Clone(events)
	slices.SortFunc(events, func(x, y handedOut) int { return cmp.Compare(x.due, y.due) })
	most = 1 << 62
	for i := range events {
		var sum int64
		for _, e := range events[i:] {
			sum += e.tokens * b.Unit
			ticks := e.due/b.Tick - events[i].due/b.Tick
			if bound := b.Limit + ticks*b.Rate; sum-bound > units-most {
				from, to, units, most = events[i].due, e.due, sum, bound
			}
		}
	}
	return from, to, units, most
}
