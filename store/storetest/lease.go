package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var leaseChecks = []Check{
	{"leases admit no more than the buckets give in a lease time longer", leasesAreBounded},
	{"leases spend what the bucket gives, and pause no longer than they may", leasesAreSpent},
	{"leases leave strict demands to the store", leasesLeaveStrictDemands},
	{"leases refuse no request that could wait", leasesLetWait},
	{"leases return what a refused request has spent, and no more", leasesAreAllOrNothing},
	{"leases end with the lease time", leasesEnd},
	{"leases give receipts from when the tokens were taken", leasesGiveReceipts},
	{"leases let no caller at its own limit block others", leasesPauseForThemselves},
	{"leases take nothing for a cost that no slice has", leasesLeaveHighCosts},
}

// leasesAreBounded plays histories with requests of all sorts, in bursts after which
// buckets fill, and counts what is admitted.
func leasesAreBounded(t testing.TB, b Backend) {
	f := newFleet(t, b, 3)
	for seed := range uint64(3) {
		f.playBursts(rand.New(rand.NewPCG(seed, 16)))
	}
	f.mustLease()
}

func (f *fleet) playBursts(r *rand.Rand) {
	rules := []store.Demand{
		{Key: f.key("one"), Bands: f.bands(band("", 300, 900, time.Second))},
		{Key: f.key("two"), Bands: f.bands(band("a", 1_000, 500, time.Second), band("b", 200, 250, 100*time.Millisecond))},
	}
	admitted := make([][]admission, len(rules))
	for range 2_500 {
		if f.change(r, 250); r.IntN(400) == 0 {
			f.pass(time.Duration(r.Int64N(int64(600 * time.Millisecond))))
		} else if r.IntN(2) == 0 {
			f.pass(time.Duration(r.Int64N(int64(2 * time.Millisecond))))
		}
		gateway, demands, of := f.any(r), []store.Demand(nil), []int(nil)
		for i := range rules {
			if len(demands) == 0 && i == len(rules)-1 || r.IntN(2) == 0 {
				demands, of = append(demands, ofAnySort(r, rules[i])), append(of, i)
			}
		}
		out := f.takeAt(gateway, demands...)
		if len(demands) == 1 && out.Admitted() && r.IntN(10) == 0 {
			f.returnSome(gateway, r, demands, out)
		}
		for i, result := range out.Results {
			if result.Granted > 0 {
				admitted[of[i]] = append(admitted[of[i]], admission{(f.now + result.Wait).Microseconds(), result.Granted})
			}
		}
	}
	for i := range rules {
		for j := range rules[i].Bands {
			f.checkOver(&rules[i].Bands[j], admitted[i])
		}
	}
}

// ofAnySort is a demand that may be strict, wait or be a shadow.
func ofAnySort(r *rand.Rand, d store.Demand) store.Demand {
	d.Cost = 1 + r.Int64N(3)
	switch r.IntN(10) {
	case 0:
		d.Strict = true
	case 1:
		d.MaxWait = time.Duration(r.Int64N(int64(20 * time.Millisecond)))
	case 2:
		d.Shadow = true
	case 3, 4:
		d.Leased = true
	}
	return d
}

// returnSome settles a take of one bucket with one band at less than its cost.
func (f *fleet) returnSome(gateway store.Store, r *rand.Rand, demands []store.Demand, out *store.Outcome) {
	takes := store.NewTakes(demands, out)
	if takes == nil || len(demands[0].Bands) > 1 {
		return
	}
	settled, err := gateway.Settle(f.Context(), takes, takes.Same(r.Int64N(out.Results[0].Granted)))
	if err != nil {
		f.Fatalf("Settle: %v", err)
	}
	out.Results[0].Granted -= settled[0].Returned
}

// leasesAreSpent plays histories in which every gateway has more requests than the
// bucket has tokens. The bucket is never full then, so all that it gives is admitted or
// was held by gateways that have died.
func leasesAreSpent(t testing.TB, b Backend) {
	for _, c := range []struct {
		band     rules.Band
		gateways int
		change   bool
	}{
		{band("", 400, 400, time.Second), 1, false},
		{band("", 400, 300, time.Second), 3, false},
		{band("", 400, 400, time.Second), 2, true},
		{band("", 150, 200, time.Second), 3, true},
	} {
		f := newFleet(t, b, c.gateways)
		f.saturate(rand.New(rand.NewPCG(uint64(c.gateways), 17)), f.demand(1, c.band), c.change)
		f.mustLease()
	}
}

func (f *fleet) saturate(r *rand.Rand, d store.Demand, change bool) {
	const step = 5 * time.Millisecond
	var admitted int64
	var empty time.Duration // when the bucket was last seen without a token
	perStep := 1 + int(d.Bands[0].Tokens*int64(step)/int64(d.Bands[0].Period))
	for f.now < 3*time.Second {
		if change {
			f.change(r, 40)
		}
		var refused []store.Result
		for _, gateway := range f.alive {
			for range perStep {
				if out := f.takeAt(gateway, d); out.Admitted() {
					admitted++
				} else {
					refused = append(refused, out.Results[0])
				}
			}
		}
		// The clock is stopped while these requests are made: what is left now was
		// there for each of them.
		left := f.remaining(d)
		if left == 0 {
			empty = f.now
		}
		if stored := func(r store.Result) bool { return !fromLease(r) }; left > 0 && slices.ContainsFunc(refused, stored) {
			f.Fatalf("%v after the start a request is refused although the bucket has %d tokens: %+v", f.now, left, refused)
		}
		if left > 0 && len(refused) > 0 && f.now-empty > f.Leases.Pause {
			f.Fatalf("requests are still refused %v after the bucket was empty, at most %v are possible; it has %d tokens",
				f.now-empty, f.Leases.Pause, left)
		}
		f.pass(step)
	}
	f.checkSpent(&d.Bands[0], admitted+f.spendAll(d))
}

// checkSpent fails unless what a full bucket has given until now was admitted, but for
// what gateways that have died held.
func (f *fleet) checkSpent(b *store.ExactBand, admitted int64) {
	f.Helper()
	given := b.Capacity + regained(b, f.now)/b.Period.Microseconds()
	held := int64(0)
	if f.Leases.Share > 0 {
		held = f.died * (b.Capacity / f.Leases.Share)
	}
	if admitted > given || admitted < given-held {
		f.Fatalf("the bucket gave %d tokens, of which %d were admitted; %d gateways died with at most %d", given, admitted, f.died, held)
	}
}
