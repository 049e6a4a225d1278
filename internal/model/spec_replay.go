package model

import (
	"math/big"
	"slices"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// charge takes what the engine charged: tokens of their own size, and never into debt. Each
// band gives what is asked of it or all that it has, whatever the others and the slots have.
func (r *replay) charge(f *Fact, d *demand) {
	for i, a := range d.views {
		if a == nil || a.kind() == rules.Concurrency || a.open || d.set.wrong {
			continue
		}
		asked, least := tokensOf(&d.Exact[i], a.band, d.Cost), new(big.Rat)
		if left, _ := r.leftTo(d, i); left.Sign() > 0 {
			least.Sub(lesser(asked, left), chargeRounding)
		}
		if cut := new(big.Rat).Sub(asked, tokensOf(&d.Exact[i], a.band, d.Granted)); cut.Sign() > 0 {
			r.cut(d.Bucket, d.Exact[i].ID, cut)
		}
		if got := tokensOf(&d.Exact[i], a.band, d.Granted); got.Cmp(least) < 0 {
			d.set.wrong = true
			r.violate(LineCharge, f.At, "bucket %s: %s of %s tokens are charged in %s, and at least %s are there", d.Bucket, got.FloatString(3), asked.FloatString(3), a.Name(), least.FloatString(3))
		}
	}
	for i, a := range d.views {
		if a == nil || a.kind() == rules.Concurrency || d.Cost == 0 {
			continue
		}
		other := a.band != r.bandOf(d.Rule, &d.Exact[i])
		if d.Granted == 0 {
			if other && a.open { // it may be debited although the version of the charge has nothing left
				d.set.accounts[accountOf(&d.Exact[i])] = a
			}
			continue
		}
		tokens := tokensOf(&d.Exact[i], a.band, d.Granted)
		_, left := r.leftTo(d, i)
		switch {
		case a.longest > 0:
			a.chargeVersions(tokensOf(&d.Exact[i], a.band, d.Cost), new(big.Rat))
			continue
		case !a.open && !d.set.wrong && tokens.Cmp(left) > 0:
			d.set.wrong = true
			r.violate(LineCharge, f.At, "bucket %s was charged %s tokens in %s, which has %s: a charge is never debt", d.Bucket, tokens.FloatString(3), a.Name(), left.FloatString(3))
		}
		a.take(tokens, 0)
		if other {
			d.set.changes++ // of what is full, it may have begun another version
		}
	}
	r.commit(f, d, d.Granted > 0)
	if d.Granted > 0 {
		d.set.since = append(d.set.since, LineCharge)
	}
}

// leftTo is what view i of a demand has left, at least and at most, to the capacity that the
// gateway knows.
func (r *replay) leftTo(d *demand, i int) (least, most *big.Rat) {
	a := d.views[i]
	least, most = a.left()
	if numbers := r.bandOf(d.Rule, &d.Exact[i]); numbers != nil {
		difference := whole(numbers.Capacity - a.Capacity)
		return new(big.Rat).Add(least, difference), new(big.Rat).Add(most, difference)
	}
	return least, most
}

// cut notes what a band could not be charged: it was empty.
func (r *replay) cut(bucket string, id uint32, tokens *big.Rat) {
	if r.uncharged[bucket] == nil {
		r.uncharged[bucket] = map[uint32]*big.Rat{}
	}
	if r.uncharged[bucket][id] == nil {
		r.uncharged[bucket][id] = new(big.Rat)
	}
	r.uncharged[bucket][id].Add(r.uncharged[bucket][id], tokens)
}

// tokensOf is how many tokens of a band so many tokens of a demand are.
func tokensOf(e *store.ExactBand, b *band, n int64) *big.Rat {
	tokens := new(big.Rat).SetFrac64(e.Unit, b.exact.Unit)
	return tokens.Mul(tokens, whole(n))
}

// settle settles takes, and compares what came back.
func (r *replay) settle(f *Fact) {
	for i := range f.Buckets {
		b := &f.Buckets[i]
		set := r.set(b)
		rest := r.rest(f, b)
		least, most := r.tokens(b, 0, abs(rest)), r.tokens(b, 0, abs(rest))
		changed, sure, released, perhaps, views := false, b.Returned+b.Charged > 0, false, false, map[uint32]*account{}
		for j := range b.Exact {
			e := &b.Exact[j]
			a := set.accounts[accountOf(e)]
			if a == nil {
				if numbers := r.bandOf(b.Rule, e); numbers != nil {
					a = newAccount(numbers, f.Clock)
					a.open = len(set.accounts) > 0 // as in view
				} else {
					continue
				}
			}
			a = a.clone()
			a.open = a.open || a.renamed
			current, numbers := a.band, r.bandOf(b.Rule, e)
			if rest < 0 && numbers != nil && numbers.kind() == rules.Quota && a.kind() == rules.Quota {
				a.renumber(numbers) // a period that begins with a charge has the capacity of the take
				a.advance(f.Clock, e.Edges)
				a.renumber(current)
			} else {
				a.advance(f.Clock, e.Edges)
			}
			if a.kind() == rules.Concurrency {
				s := a.slots[b.Holder]
				released, perhaps = released || s.until > a.at, perhaps || s.until > a.at && s.early <= a.at
				delete(a.slots, b.Holder)
			} else {
				from, to := new(big.Rat), r.tokens(b, j, abs(rest))
				if numbers == nil || numbers.kind() == a.kind() {
					from, to = r.settleIn(f, b, a, j, rest)
				} else {
					a.open = true // the band is of another kind now
				}
				least, most = lesser(least, from), lesser(most, to)
				changed, sure = changed || to.Sign() > 0, sure || from.Sign() > 0
				if to.Sign() > 0 {
					set.renames(b, set.accounts[accountOf(e)], f.Clock)
				} else {
					continue // it stays as it is: a clock that steps back may find its former period
				}
			}
			views[accountOf(e)] = a
		}
		adopted := changed && sure || released && !perhaps
		for id, a := range views {
			if before := set.accounts[id]; changed || released && !perhaps && a.kind() == rules.Concurrency {
				a.open = a.open || !adopted && before != nil && f.Clock < before.at && a.kind() != rules.Concurrency
				r.wrote(set, id, before, a, f)
				set.accounts[id] = a
			}
		}
		if adopted {
			set.adopt(f.Clock)
		} else if changed || perhaps {
			set.unsureOf(f.Clock, b.Holder)
		}
		if !changed {
			continue // nothing else was written
		}
		if sure {
			set.written(f.Clock)
		} else {
			set.maybeWritten()
		}
		if got := r.tokens(b, 0, b.Returned+b.Charged); !set.wrong && (got.Cmp(r.rounded(b, least)) < 0 || got.Cmp(most) > 0) {
			set.wrong = true
			r.violate(LineSettlement, f.At, "bucket %s: settling %d at %d moved %s tokens, and %s were due", b.Bucket, b.Cost, b.Actual, got.FloatString(3), rangeOf(least, most))
		}
		set.since = append(set.since, LineSettlement)
	}
}

// tokens is how many tokens of a band so many of a settlement are.
func (r *replay) tokens(b *BucketFact, j int, n int64) *big.Rat {
	if numbers := r.bandOf(b.Rule, &b.Exact[j]); numbers != nil && b.Fallback {
		return tokensOf(&b.Exact[j], numbers, n)
	}
	return whole(n)
}

// rounded is what a settlement reports at least: whole tokens, or units.
func (r *replay) rounded(b *BucketFact, tokens *big.Rat) *big.Rat {
	if b.Fallback {
		return new(big.Rat).Sub(tokens, carryRounding)
	}
	return whole(floor(tokens))
}

// rest is what is to come back, or negative what is to be charged. Bands may have been
// debited more than the cost of a take, by an overdraft that the debt of another band cut.
func (r *replay) rest(f *Fact, b *BucketFact) int64 {
	asked := b.Cost
	if t := r.takes[f.Check]; t != nil {
		for i := range t.Buckets {
			if t.Buckets[i].Bucket == b.Bucket && t.Buckets[i].Overdraft {
				asked = t.Buckets[i].Cost
			}
		}
	}
	if b.Actual <= b.Cost {
		return b.Cost - b.Actual
	}
	return min(0, asked-b.Actual)
}

// settleIn settles a take in one band. What the contract does not say is open.
func (r *replay) settleIn(f *Fact, b *BucketFact, a *account, j int, rest int64) (least, most *big.Rat) {
	switch {
	case rest < 0 && (a.open || a.kind() == rules.TokenBucket && r.bandOf(b.Rule, &b.Exact[j]) != a.band):
		a.open = true // in proportion or not, and there may be a record of the other version alone
		return new(big.Rat), r.tokens(b, j, -rest)
	case rest < 0:
		debt := a.debt()
		if numbers := r.bandOf(b.Rule, &b.Exact[j]); numbers != nil {
			if before := r.set(b).accounts[accountOf(&b.Exact[j])]; before != nil && a.kind() == rules.Quota {
				if a.emptied && a.largest > numbers.Capacity {
					a.open = true
					return new(big.Rat), r.tokens(b, j, -rest)
				}
				a.raise(numbers, before)
				debt = greater(debt, whole(2*a.largest-a.Capacity))
			}
			if _, most := a.left(); a.kind() == rules.SlidingWindow && numbers.Capacity < a.Capacity && most.Cmp(whole(a.Capacity)) == 0 {
				a.open = true // nothing is used, and that its capacity was higher may be forgotten
				return new(big.Rat), r.tokens(b, j, -rest)
			}
			// The take was under other numbers, which may allow more.
			debt = greater(debt, new(big.Rat).Add(numbers.debt(), whole(numbers.Capacity-a.Capacity)))
		}
		return a.chargeVersions(r.tokens(b, j, -rest), debt)
	case rest == 0 || f.Clock < b.TakenAt: // the clock stepped back: what has overflowed is unknown
		return new(big.Rat), new(big.Rat)
	}
	numbers := r.bandOf(b.Rule, &b.Exact[j])
	scaled := r.tokens(b, j, rest)
	if r.moves(b.Rule, &b.Exact[j]) {
		a.open = true
		return new(big.Rat), scaled
	}
	if numbers != nil && numbers != a.band && a.kind() == rules.TokenBucket {
		// Refunds carry over as well. By how much depends on when the numbers changed, and where
		// two versions count apart it is that of the version of the take.
		other := new(big.Rat).Mul(scaled, new(big.Rat).SetFrac64(a.Capacity, numbers.Capacity))
		a.open = true
		return new(big.Rat), greater(scaled, other)
	}
	due := b.TakenAt
	if t := r.takes[f.Check]; t != nil {
		for k := range t.Buckets {
			if t.Buckets[k].Bucket == b.Bucket && t.Clock == b.TakenAt && !t.Buckets[k].Overdraft {
				due += t.Buckets[k].Bands[j].Wait.Microseconds()
			}
		}
	}
	last := int64(0)
	for _, other := range r.set(b).accounts {
		last = max(last, other.last)
	}
	// What was charged may be of several moments. What was taken before a reset or before the
	// clock stepped back may come from takes after that, of the same sixteenth of the period, or
	// of a quota of other gateways that ends at the same time, or may stay.
	reset := r.takenBeforeReset(f, b)
	unsure := a.open || b.Fallback || reset || r.steppedBackSince(f.Check) || b.TakenAt <= min(a.at, a.unsure)
	own, age := b.Exact[j].Period.Microseconds(), f.Clock-b.TakenAt // of the window of the take
	if a.kind() == rules.SlidingWindow && age >= own+own/16 {
		return new(big.Rat), new(big.Rat) // it has left, whatever the period is now
	}
	if a.kind() == rules.SlidingWindow && (unsure || age >= own) || a.kind() == rules.Quota && reset && r.set(b).mixed {
		a.open = true
		return new(big.Rat), scaled
	}
	if end, known := r.set(b).ends[moment{accountOf(&b.Exact[j]), b.TakenAt}]; known && a.kind() == rules.Quota {
		return r.giveBackToQuota(f, b, a, end, scaled)
	}
	return a.giveBack(r.tokens(b, j, b.Cost), scaled, b.TakenAt, due, last)
}

// moves reports whether a band without a label is at another position in another version of its
// rule: what was taken from the one is not found in the other.
func (s *spec) moves(rule string, e *store.ExactBand) bool {
	for _, version := range s.Versions {
		there, elsewhere := false, false
		for _, r := range version {
			for j, b := range r.Bands {
				if exact, err := b.Exact(j); r.ID == rule && b.Label == "" && err == nil && exact.Kind == e.Kind {
					there, elsewhere = there || exact.ID == e.ID, elsewhere || exact.ID != e.ID
				}
			}
		}
		if elsewhere && !there && e.ID < 16 {
			return true
		}
	}
	return false
}

// giveBackToQuota gives back what was taken in the period that ends at a moment. It may be before
// the calendar's: the clock stepped back.
func (r *replay) giveBackToQuota(f *Fact, b *BucketFact, a *account, end int64, tokens *big.Rat) (least, most *big.Rat) {
	if end != a.end {
		return new(big.Rat), new(big.Rat)
	}
	_, taken := periodOf(a.edges, b.TakenAt)
	if _, now := periodOf(a.edges, a.at); a.forgotten && (taken != now || r.steppedBackSince(f.Check)) {
		return a.refill(new(big.Rat), tokens) // the periods may be those of the new clock
	}
	return a.refill(tokens, tokens)
}

// takenBeforeReset reports whether a reset or a loss has filled the bucket since a take that is
// settled now, or a gateway that had not seen the reset has taken it.
func (r *replay) takenBeforeReset(settled *Fact, b *BucketFact) bool {
	if took := r.takes[settled.Check]; took != nil && slices.ContainsFunc(took.Buckets, func(t BucketFact) bool { return t.Bucket == b.Bucket && t.Generation != b.Generation }) {
		return true
	}
	return slices.ContainsFunc(r.facts, func(f Fact) bool {
		fills := f.Kind == StoreEmptied || f.Kind == StoreReset && (f.Rule == "" || f.Rule == b.Rule)
		return fills && f.Clock >= b.TakenAt && f.At <= settled.At
	})
}

// steppedBackSince reports whether the clock has stepped back since the take of a request.
func (r *replay) steppedBackSince(check int) bool {
	took := r.takes[check]
	return slices.ContainsFunc(r.facts, func(f Fact) bool {
		return f.Kind == ClockStepped && f.Step < 0 && (took == nil || f.At >= took.At)
	})
}

func abs(n int64) int64 { return max(n, -n) }

func lesser(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// extend renews slots, and compares whether they were held.
func (r *replay) extend(f *Fact) {
	all, known := true, true
	for i := range f.Buckets {
		b := &f.Buckets[i]
		set := r.set(b)
		known = known && !set.wrong
		for j := range b.Exact {
			a := set.accounts[accountOf(&b.Exact[j])]
			if numbers := r.bandOf(b.Rule, &b.Exact[j]); numbers == nil || numbers.kind() != rules.Concurrency {
				continue
			} else if a == nil {
				all = false
				continue
			}
			a.advance(f.Clock, b.Exact[j].Edges)
			s := a.slots[b.Holder]
			held := s.until > a.at
			gone := held && s.early <= f.Clock && !f.SlotsHeld // it ended before the clock stepped back
			if all = all && held && !gone; held {
				renewed := newSlot(f.Clock, b.Exact[j].Period)
				renewed.until = max(s.until, renewed.until)
				if gone {
					renewed.early = s.early
				}
				a.slots[b.Holder] = renewed
			}
		}
		set.adopt(f.Clock)
	}
	if known && f.SlotsHeld != all {
		r.violate(LineSlots, f.At, "request %d holds all its slots: %t, and the store says %t", f.Check, all, f.SlotsHeld)
	}
}
