package model

import (
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// debt is the most that the band may owe.
func (b *band) debt() *big.Rat {
	most := whole(b.Capacity)
	if b.exact.CountsRefused {
		return whole(b.exact.Max - b.exact.Limit)
	}
	if b.kind() == rules.TokenBucket {
		hour := regained(&b.Band, largestDebt+time.Duration(b.exact.Tick)*time.Microsecond)
		if hour.Cmp(most) > 0 {
			most = hour
		}
	}
	return most
}

// charge takes tokens into debt, up to the largest that is given, and returns how many, at
// least and at most.
func (a *account) charge(tokens, debt *big.Rat) (least, most *big.Rat) {
	from, to := a.left()
	if a.longest > 0 { // the version with the longest period has the least room
		since := a.at - max(a.longest, a.Refill.Microseconds()) - a.late
		from = lesser(from, new(big.Rat).Sub(whole(a.Capacity), a.spentSince(since, true)))
	}
	room := func(left *big.Rat) *big.Rat {
		return lesser(tokens, greater(new(big.Rat), new(big.Rat).Add(left, debt)))
	}
	least, most = room(from), room(to)
	if a.kind() == rules.SlidingWindow {
		a.take(least, 0)
		a.log = append(a.log, spent{at: a.at, tokens: new(big.Rat).Sub(most, least), gone: true})
		return least, most
	}
	a.least.Sub(a.least, least)
	a.most.Sub(a.most, most)
	return least, most
}

// chargeVersions is charge of a window, of which another version may have room for more.
func (a *account) chargeVersions(tokens, debt *big.Rat) (least, most *big.Rat) {
	if least, most = a.charge(tokens, debt); a.longest == 0 {
		return least, most
	}
	a.log = append(a.log, spent{at: a.at, tokens: new(big.Rat).Sub(tokens, most), gone: true})
	return least, tokens
}

// giveBack gives back the rest of n tokens that were taken at a moment and are due at
// another, and returns what comes back: never what may have been handed out since. last
// is when the last tokens of the whole set are due: they may count.
func (a *account) giveBack(n, rest *big.Rat, takenAt, due, last int64) (least, most *big.Rat) {
	none := new(big.Rat)
	switch a.kind() {
	case rules.Concurrency:
		return none, none
	case rules.SlidingWindow:
		return a.giveBackSpent(rest, takenAt)
	case rules.Quota:
		if takenAt < a.begin {
			return none, none
		}
		return a.refill(rest, rest)
	}
	comes := func(last int64) *big.Rat {
		r := new(big.Rat).Sub(n, new(big.Rat).Mul(a.rate, a.ticks(due, last)))
		if r.Sign() <= 0 {
			return none
		}
		return lesser(r, rest)
	}
	return a.refill(comes(max(last, a.last)), comes(a.last))
}

// giveBackSpent gives back what a window has handed out at a moment. What it has handed out for sure
// comes back before what it may have.
func (a *account) giveBackSpent(rest *big.Rat, takenAt int64) (least, most *big.Rat) {
	left, known := new(big.Rat).Set(rest), false
	log := slices.Clone(a.log)
	for _, gone := range []bool{false, true} {
		for i := range log {
			if s := &log[i]; s.at == takenAt && s.gone == gone {
				known = true
				back := lesser(left, s.tokens)
				s.tokens = new(big.Rat).Sub(s.tokens, back)
				left.Sub(left, back)
			}
		}
	}
	switch {
	case left.Sign() == 0:
		a.log = log
		if takenAt > a.at-a.Refill.Microseconds() {
			return rest, rest
		}
		return new(big.Rat), rest
	case !known && takenAt > a.at-a.Refill.Microseconds()-a.late:
		a.open = true // the band was of another kind meanwhile: what it had taken before is not known
		return new(big.Rat), rest
	}
	return new(big.Rat), new(big.Rat)
}

// refill adds tokens as far as there is room, and returns how many.
func (a *account) refill(least, most *big.Rat) (from, to *big.Rat) {
	room := func(left *big.Rat) *big.Rat { return new(big.Rat).Sub(whole(a.Capacity), left) }
	from, to = lesser(least, room(a.most)), lesser(most, room(a.least))
	a.least.Add(a.least, lesser(least, room(a.least)))
	a.most.Add(a.most, lesser(most, room(a.most)))
	a.emptied = a.emptied || a.most.Cmp(whole(a.Capacity)) == 0
	return from, to
}

// change carries the account over to other numbers (I6): the used part of a token bucket
// in proportion, rounded against the caller, and the number that is used of other kinds.
// Once the numbers of a token bucket have changed, they may alternate for a while.
func (a *account) change(to *band, now int64, edges [3]int64, first bool) {
	from := a.band
	if from.kind() != to.kind() || a.kinds {
		*a = *a.ofKind(to, now)
		return
	}
	early := a.clone()            // the numbers changed right after the last write, or right before now
	if to.kind() == rules.Quota { // a period that begins pays at most its own capacity
		a.renumber(to)
	}
	if to.kind() != rules.SlidingWindow {
		a.advance(now, edges)
	}
	a.band = to
	lowest := new(big.Rat).Neg(a.debt())
	switch to.kind() {
	case rules.TokenBucket:
		factor := new(big.Rat).SetFrac64(to.Capacity, from.Capacity)
		for _, left := range []*big.Rat{a.least, a.most, early.least, early.most} {
			left.Mul(left, factor)
		}
		early.band = to
		early.least, early.most = greater(early.least, lowest), greater(early.most, lowest)
		early.least, early.most = new(big.Rat).Set(early.least), new(big.Rat).Set(early.most)
		early.advance(now, edges)
		a.least.Set(lesser(a.least, early.least))
		a.most.Set(greater(a.most, early.most))
		a.least.Sub(a.least, carryRounding)
		a.open = a.open || !first // versions that take turns may count apart: their sum is bounded
		if a.least.Cmp(lowest) < 0 {
			a.least.Set(lowest)
		}
		if a.most.Cmp(a.least) < 0 {
			a.most.Set(a.least)
		}
	case rules.Quota:
		a.raise(to, early)
		if _, next := periodAt(&from.Band, early.end); from.Period != to.Period && now >= next {
			a.most.SetInt64(to.Capacity) // the former numbers were full again, and may be forgotten
		}
	case rules.SlidingWindow:
		a.late = max(a.late, lateOf(from)) + lateOf(to)
		a.longest = max(a.longest, from.Refill.Microseconds())
		for i := range a.log { // what the former numbers do not count may be forgotten, or count again
			a.log[i].gone = a.log[i].gone || a.log[i].at <= now-from.Refill.Microseconds()
		}
	}
}

// ofKind is the account of a band that was of another kind before. The records of its windows may be
// kept until all that they have handed out has left them: a charge finds room in them too.
func (a *account) ofKind(to *band, now int64) *account {
	next := newAccount(to, now)
	next.open, next.kinds, next.former = true, true, a.former
	if a.kind() == rules.SlidingWindow {
		period := max(a.longest, a.Refill.Microseconds())
		next.former = formerWindow{max(a.former.period, period), max(a.former.until, a.at+period+a.late)}
	}
	if to.kind() == rules.SlidingWindow && now < next.former.until {
		next.longest = next.former.period
	}
	return next
}

// renumber gives a quota other numbers. What it has used stays.
func (a *account) renumber(to *band) {
	difference := whole(to.Capacity - a.Capacity)
	a.band, a.least, a.most = to, a.least.Add(a.least, difference), a.most.Add(a.most, difference)
}

// raise notes that a write under some numbers has made the quota of before what it is now.
func (a *account) raise(numbers *band, before *account) {
	if a.end != before.end { // it began the period
		a.largest = 0
	}
	a.largest = max(a.largest, numbers.Capacity)
}
