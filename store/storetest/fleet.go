package storetest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// fleet are gateways that share buckets. A gateway that has died is not used any more.
type fleet struct {
	*fixture
	alive  []store.Store
	died   int64
	now    time.Duration // since the fleet was created
	leased int           // requests that were admitted from memory
}

func newFleet(t testing.TB, b Backend, gateways int) *fleet {
	t.Helper()
	f := &fleet{fixture: newFixture(t, b), alive: []store.Store{b.Store}}
	for len(f.alive) < gateways {
		f.join()
	}
	return f
}

func (f *fleet) join() {
	gateway := f.Store
	if f.Gateway != nil {
		gateway = f.Gateway(f.TB)
	}
	f.alive = append(f.alive, gateway)
}

// change lets a gateway die or join, once in so many calls. There are one to four.
func (f *fleet) change(r *rand.Rand, every int) {
	switch n := len(f.alive); {
	case r.IntN(every) > 0:
	case r.IntN(2) == 0 && n > 1:
		i := r.IntN(n)
		f.alive = slices.Delete(f.alive, i, i+1)
		f.died++
	case n < 4:
		f.join()
	}
}

func (f *fleet) pass(d time.Duration) {
	d = d.Truncate(time.Microsecond)
	f.now += d
	f.Advance(d)
}

// any is a gateway that lives.
func (f *fleet) any(r *rand.Rand) store.Store { return f.alive[r.IntN(len(f.alive))] }

// takeAt takes at a gateway.
func (f *fleet) takeAt(gateway store.Store, demands ...store.Demand) *store.Outcome {
	f.Helper()
	out := new(store.Outcome)
	if err := gateway.Take(f.Context(), demands, out); err != nil {
		f.Fatalf("Take: %v", err)
	}
	if out.Admitted() && slices.ContainsFunc(out.Results, fromLease) {
		f.leased++
	}
	return out
}

func fromLease(r store.Result) bool { return r.Source == store.FromLease }

// mustLease fails if a store that takes tokens ahead has spent none of them: the check
// has seen nothing then.
func (f *fleet) mustLease() {
	f.Helper()
	if f.Leases.Time > 0 && f.leased == 0 {
		f.Fatal("no request was admitted from tokens that were taken ahead")
	}
}

// spendAll takes one token at a time, what the store has first and then what the
// gateways that live hold. It returns how many there were.
func (f *fleet) spendAll(d store.Demand) (tokens int64) {
	f.Helper()
	tokens = f.drain(d)
	d.Cost = 1
	for _, gateway := range f.alive {
		for f.takeAt(gateway, d).Admitted() {
			tokens++
		}
	}
	return tokens
}

// regained is how many tokens come back in a time, in parts of which the period of the
// band has as many as microseconds.
func regained(b *store.ExactBand, d time.Duration) int64 { return b.Tokens * d.Microseconds() }

// checkOver fails if in any interval more was admitted than the band gives in it and in
// the lease time. It sorts the admissions.
func (f *fleet) checkOver(b *store.ExactBand, admitted []admission) {
	f.Helper()
	slices.SortFunc(admitted, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	period := b.Period.Microseconds()
	bound := b.Capacity*period + regained(b, f.Leases.Time)
	// What was admitted beyond the rate since the interval began that had the most.
	var beyond, last int64
	for _, a := range admitted {
		beyond = max(0, beyond-b.Tokens*(a.at-last)) + a.cost*period
		last = a.at
		if beyond > bound {
			f.Fatalf("an interval ends at %d µs in which %d tokens too many were admitted: "+
				"a capacity of %d, %d every %v, a lease time of %v",
				a.at, (beyond-bound+period-1)/period, b.Capacity, b.Tokens, b.Period, f.Leases.Time)
		}
	}
}
