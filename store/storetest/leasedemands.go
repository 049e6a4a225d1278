package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// amongLeases plays a history of a bucket that gateways have taken tokens of, and that
// is empty now and then. Some of its demands are of another sort: check has the answer
// to a peek, the answer at a gateway, and what is left in the store then.
func amongLeases(
	t testing.TB, b Backend,
	sort func(*rand.Rand, *store.Demand), check func(f *fleet, peeked, got store.Result, left int64),
) {
	f, r := newFleet(t, b, 3), rand.New(rand.NewPCG(1, 18))
	d := f.demand(1, band("", 400, 400, time.Second))
	for range 2_000 {
		if f.change(r, 250); r.IntN(3) == 0 {
			f.pass(time.Duration(r.Int64N(int64(2 * time.Millisecond))))
		}
		f.takeAt(f.any(r), d)
		if r.IntN(10) == 0 {
			other := d
			sort(r, &other)
			peeked := f.peek(other).Results[0]
			got := f.takeAt(f.any(r), other).Results[0]
			check(f, peeked, got, f.remaining(d))
		}
	}
	f.mustLease()
}

func leasesLeaveStrictDemands(t testing.TB, b Backend) {
	amongLeases(t, b, func(r *rand.Rand, d *store.Demand) {
		d.Cost, d.Strict = 1+r.Int64N(5), true
	}, func(f *fleet, peeked, got store.Result, left int64) {
		if got.Source != store.FromStore || got.Status != peeked.Status || got.Granted != peeked.Granted ||
			got.Wait != peeked.Wait || got.Now != peeked.Now {
			f.Fatalf("a strict demand is %+v, a peek was %+v", got, peeked)
		}
		if want := peeked.Bands[0].Remaining - got.Granted; got.Bands[0].Remaining != want || left != want {
			f.Fatalf("a strict demand for which %d were granted says that %d are left, want %d; the store has %d",
				got.Granted, got.Bands[0].Remaining, want, left)
		}
	})
}

func leasesLetWait(t testing.TB, b Backend) {
	amongLeases(t, b, func(r *rand.Rand, d *store.Demand) {
		d.Cost, d.MaxWait = 1+r.Int64N(3), time.Duration(r.Int64N(int64(20*time.Millisecond)))+1
	}, func(f *fleet, peeked, got store.Result, _ int64) {
		switch {
		case got.Status == store.OK && got.Wait > peeked.Wait:
			f.Fatalf("a request waits %v, in the store %v", got.Wait, peeked.Wait)
		case got.Status == store.OK:
		case got.Source == store.FromLease, peeked.Status == store.OK:
			f.Fatalf("a request that could wait is %+v, a peek was %+v", got, peeked)
		}
	})
}

// leasesAreAllOrNothing makes requests of which many are refused by another rule. The
// clock is stopped, so that each token is admitted once, whatever is refused.
func leasesAreAllOrNothing(t testing.TB, b Backend) {
	f, r := newFleet(t, b, 3), rand.New(rand.NewPCG(1, 19))
	hot := f.demand(1, band("", 1_500, 200, time.Second))
	busy := f.demand(1, band("", 250, 250, time.Second))
	var strict store.Demand
	admitted := map[store.KeyID]int64{}
	for i := range 1_200 {
		if i%100 == 0 {
			strict = f.demand(1, band("", 10, 1, time.Hour))
			strict.Strict = true
		}
		demands := []store.Demand{hot}
		if r.IntN(3) == 0 {
			demands = append(demands, busy)
		}
		if r.IntN(3) == 0 {
			demands = append(demands, strict)
		}
		for i := range demands {
			demands[i].Cost, demands[i].Shadow = 1+r.Int64N(3), r.IntN(8) == 0
		}
		out := f.takeAt(f.any(r), demands...)
		for i, result := range out.Results {
			if result.Granted > 0 && (result.Status != store.OK || !out.Admitted()) {
				f.Fatalf("a request of which a demand was granted %d is %+v", result.Granted, out.Results)
			}
			admitted[demands[i].Key.ID] += result.Granted
		}
	}
	for _, d := range []store.Demand{hot, busy} {
		f.checkSpent(&d.Bands[0], admitted[d.Key.ID]+f.spendAll(d))
	}
	f.mustLease()
}

// untilLeased makes requests at a gateway until one is admitted from memory, and then
// takes all that the store has.
func (f *fleet) untilLeased(d store.Demand) {
	f.Helper()
	for range 100 {
		if f.takeAt(f.Store, d); f.leased > 0 {
			break
		}
	}
	f.mustLease()
	f.drain(d)
}

func leasesEnd(t testing.TB, b Backend) {
	f := newFleet(t, b, 1)
	d := f.demand(1, band("", 400, 200, time.Second))
	f.untilLeased(d)
	if out := f.takeAt(f.Store, d); out.Admitted() != (f.Leases.Time > 0) {
		f.Fatalf("when the store has no tokens left, with a lease time of %v a request is %+v", f.Leases.Time, out.Results)
	}
	f.pass(f.Leases.Time)
	f.drain(d) // what came back meanwhile
	if out := f.takeAt(f.Store, d); out.Admitted() {
		f.Fatalf("%v after the tokens were taken a request is admitted: %+v", f.Leases.Time, out.Results)
	}
}

// leasesGiveReceipts gives back tokens some time after they were taken ahead: meanwhile
// the bucket has regained some of them.
func leasesGiveReceipts(t testing.TB, b Backend) {
	f := newFleet(t, b, 1)
	d := f.demand(1, band("", 400, 200, time.Second))
	f.untilLeased(d)
	f.pass(f.Leases.Time / 25)
	back := regained(&d.Bands[0], f.now) / time.Second.Microseconds()
	d.Cost = back + 1
	out := f.takeAt(f.Store, d)
	if out.Admitted() != (f.Leases.Time > 0) {
		f.Fatalf("when the store has no more than %d tokens, with a lease time of %v a request is %+v", back, f.Leases.Time, out.Results)
	}
	if !out.Admitted() {
		return
	}
	if s := f.settle(0, out, d); s.Returned > 1 {
		f.Fatalf("of %d tokens that were taken %v ago %d come back, at most 1 may", d.Cost, f.now, s.Returned)
	}
}

// leasesPauseForThemselves has a caller far above its own limit, most of whose requests
// are also under a limit that others share.
func leasesPauseForThemselves(t testing.TB, b Backend) {
	f := newFleet(t, b, 2)
	shared := f.demand(1, band("", 100, 100, time.Second))
	own := f.demand(1, band("", 400, 400, time.Second))
	other := f.demand(1, band("", 1_000, 1_000, time.Second))
	strict := shared
	strict.Strict = true
	refused := time.Duration(-1) // since when, although the bucket has tokens
	for step := range 1_200 {
		for range 5 {
			f.takeAt(f.Store, own)
		}
		if step%300 == 200 { // the other gateway takes a token that this one waits for
			f.drain(shared)
			f.takeAt(f.Store, shared)
			f.pass(10 * time.Millisecond)
			f.takeAt(f.alive[1], strict)
			f.takeAt(f.Store, shared)
		}
		f.takeAt(f.Store, shared, own)
		if step%20 == 7 {
			f.takeAt(f.alive[1], strict)
		}
		if step%5 == 0 {
			left := f.remaining(shared)
			switch admitted := f.takeAt(f.Store, shared, other).Admitted(); {
			case admitted || left == 0:
				refused = -1
			case refused < 0:
				refused = f.now
			case f.now-refused > 2*f.Leases.Pause:
				f.Fatalf("a caller has been refused for %v although the bucket has %d tokens, at most %v are possible",
					f.now-refused, left, 2*f.Leases.Pause)
			}
		}
		f.pass(time.Millisecond)
	}
}

// leasesLeaveHighCosts has requests of cost 1, and some that cost half of the bucket. It is
// never full, so nearly all that it gives is admitted.
func leasesLeaveHighCosts(t testing.TB, b Backend) {
	f := newFleet(t, b, 1)
	low, high := f.demand(1, band("", 1_000, 1_000, time.Second)), int64(500)
	admitted := int64(0)
	for step := range 3_000 {
		d := low
		if step%200 == 0 {
			d.Cost = high
		}
		if step%5 < 3 && f.takeAt(f.Store, d).Admitted() {
			admitted += d.Cost
		}
		f.pass(time.Millisecond)
	}
	if given := low.Bands[0].Capacity + regained(&low.Bands[0], f.now)/low.Bands[0].Period.Microseconds(); admitted < (given-high)*9/10 {
		f.Fatalf("the bucket gave %d tokens, of which %d were admitted", given, admitted)
	}
	f.mustLease()
}
