package model

import (
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// account is one band of one bucket set as the contract wants it, in exact rationals. What
// the contract leaves open is a range: a change of numbers is rounded, and a sliding
// window may keep a token for a sixteenth of its period longer.
type account struct {
	*band
	at int64 // by the store's clock
	// least and most are the tokens that are left, negative for debt. Of a quota, in the
	// period that ends at end.
	least, most *big.Rat
	end         int64
	// begin is when the period began, and largest its highest capacity: only what is used beyond
	// that is debt.
	begin, largest int64
	// emptied is whether nothing was used in the period at some time: what its highest capacity
	// was may be forgotten.
	emptied bool
	edges   [3]int64 // that a gateway sent last
	// forgotten is whether the clock stepped back after the end, or before a period of which
	// nothing is used: the period may be that of the new clock.
	forgotten bool
	// last is when the last tokens that were promised are due.
	last int64
	log  []spent // of a window
	// late is for how long a window may keep a token after its period, and longest the longest
	// period that it had: versions with different ones count by themselves. Tokens that were
	// taken until unsure may be in the next of its sixteenths: the clock stepped back.
	late, longest, unsure int64

	slots map[int]slot // by holder, also those that have ended: a clock that steps back may find them
	// open is whether the contract does not say what is left: it is what the store says. It does
	// not after a step back of the clock if a settlement that came last may be unwritten.
	open, unwritten bool
	// kinds is whether the band had several kinds: the records of former ones may be kept.
	kinds bool
	// former is the window that the band was before it had another kind.
	former formerWindow
	// renamed is whether a band with another label may have taken it over.
	renamed bool
}

// spent are tokens that a window has handed out. Those that are gone may not count any
// more.
type spent struct {
	at     int64
	tokens *big.Rat
	gone   bool
}

// formerWindow is the longest period of windows, and until when one may be kept.
type formerWindow struct {
	period, until int64
}

// slot is one that is held until a moment of the store's clock, and perhaps not after an
// earlier one.
type slot struct {
	until, early, hold int64
}

func newSlot(now int64, hold time.Duration) slot {
	end := now + hold.Microseconds()
	return slot{end, end, hold.Microseconds()}
}

func newAccount(b *band, now int64) *account {
	a := &account{band: b, at: now, last: now, least: whole(b.Capacity), most: whole(b.Capacity), largest: b.Capacity, slots: map[int]slot{}}
	a.late = lateOf(b)
	return a
}

func lateOf(b *band) int64 {
	late := new(big.Rat).Mul(windowLate, whole(b.Refill.Microseconds()))
	return new(big.Int).Quo(late.Num(), late.Denom()).Int64()
}

func (b *band) ticks(from, to int64) *big.Rat {
	return whole(max(0, to/b.exact.Tick-from/b.exact.Tick))
}

// advance brings the account to a moment. The edges of a quota are those that the gateway
// sent, or else the last ones.
func (a *account) advance(now int64, edges [3]int64) {
	if edges[1] != 0 {
		a.edges = edges
	}
	back := now < a.at
	switch a.kind() {
	case rules.TokenBucket:
		if !back {
			add := new(big.Rat).Mul(a.rate, a.ticks(a.at, now))
			for _, left := range []*big.Rat{a.least, a.most} {
				if left.Add(left, add); left.Cmp(whole(a.Capacity)) > 0 {
					left.SetInt64(a.Capacity)
				}
			}
		} else {
			a.last = max(now, a.last-(a.at-now))
		}
		a.last = max(a.last, now)
	case rules.Quota:
		a.newPeriod(now)
	case rules.SlidingWindow:
		if back {
			a.late = max(a.late, 3*lateOf(a.band)) // the slot of now may be about to end, that of before to begin
			a.unsure = max(a.unsure, a.at, now+lateOf(a.band))
			for i := range a.log {
				a.log[i].at -= a.at - now
			}
		} else {
			a.log = slices.DeleteFunc(slices.Clone(a.log), func(s spent) bool {
				return s.at <= now-max(a.longest, a.Refill.Microseconds())-a.late
			})
		}
	case rules.Concurrency:
		for holder, s := range a.slots {
			if back {
				s.until, s.early = min(s.until, now+s.hold), min(s.early, now+s.hold)
				a.slots[holder] = s
			}
		}
	}
	a.at = now
}

// stepBack prepares the account for a clock that steps back. No time has
// passed since the last write then. But a bucket that was full may be forgotten.
func (a *account) stepBack(from, to int64) {
	late := a.clone()
	late.advance(from, a.edges)
	a.open = a.open || a.unwritten
	switch a.kind() {
	case rules.SlidingWindow:
		for i := range a.log {
			a.log[i].gone = a.log[i].gone || a.log[i].at <= from-a.Refill.Microseconds()
		}
	case rules.Concurrency:
		for holder, s := range a.slots {
			if s.early = min(s.early, to+s.hold, s.until-(from-to)); s.until <= from {
				s.early = to
			}
			a.slots[holder] = s
		}
	case rules.Quota:
		if a.end <= from {
			a.most.SetInt64(a.Capacity)
			a.forgotten = true
		} else if to < a.begin && a.least.Cmp(whole(a.Capacity)) == 0 {
			a.forgotten = true // a period with nothing used
		}
	default:
		if late.least.Cmp(whole(a.Capacity)) == 0 {
			a.most.SetInt64(a.Capacity)
		}
	}
}

// newPeriod begins a period of a quota, which is full but for the debt of the last one, of which
// it pays at most its capacity.
func (a *account) newPeriod(now int64) {
	if a.edges[1] == 0 {
		return
	}
	begin, end := periodOf(a.edges, now)
	switch {
	case a.end > now: // the period that was begun ends first, whatever the calendar says
		if a.forgotten && a.at < begin {
			a.most.SetInt64(a.Capacity)
		}
		return
	case a.exact.CountsRefused: // what is above the limit ends with its period
		a.least, a.most = whole(a.Capacity), whole(a.Capacity)
		if a.end >= begin && a.end > 0 {
			begin = a.end
		}
	case a.end >= begin && a.end > 0:
		for i, left := range []*big.Rat{a.least, a.most} {
			largest := a.largest
			if i == 0 && a.emptied {
				largest = min(largest, a.Capacity)
			}
			if left.Add(left, whole(largest-a.Capacity)); left.Sign() > 0 {
				left.SetInt64(0)
			}
			left.Set(greater(left.Add(left, whole(a.Capacity)), new(big.Rat)))
		}
		begin = a.end
	default:
		a.least, a.most = whole(a.Capacity), whole(a.Capacity)
	}
	a.begin, a.end, a.largest, a.forgotten = begin, end, a.Capacity, false
	a.emptied = a.most.Cmp(whole(a.Capacity)) == 0
}

// periodOf is the period of a moment, by the edges that a gateway sent: those of its own
// period and the next. Where the clock is further away, periods have the same length.
func periodOf(edges [3]int64, now int64) (begin, end int64) {
	begin, end = edges[0], edges[1]
	length := end - begin
	if now >= end {
		begin, end = end, edges[2]
	}
	if now >= end {
		begin += (now-end)/length*length + (end - begin)
		return begin, begin + length
	}
	for now < begin {
		begin -= length
		end = begin + length
	}
	return begin, end
}

// left is how many tokens there are, at least and at most.
func (a *account) left() (least, most *big.Rat) {
	switch a.kind() {
	case rules.SlidingWindow:
		return new(big.Rat).Sub(whole(a.Capacity), a.spentSince(a.at-a.Refill.Microseconds()-a.late, true)),
			new(big.Rat).Sub(whole(a.Capacity), a.spentSince(a.at-a.Refill.Microseconds(), false))
	case rules.Concurrency:
		least, most := slotsBound(&a.Band), slotsBound(&a.Band)
		for _, s := range a.slots {
			if s.until > a.at {
				least--
			}
			if min(s.until, s.early) > a.at {
				most--
			}
		}
		return whole(least), whole(most)
	}
	return a.least, a.most
}

func (a *account) spentSince(at int64, gone bool) *big.Rat {
	sum := new(big.Rat)
	for _, s := range a.log {
		if s.at > at && (gone || !s.gone) {
			sum.Add(sum, s.tokens)
		}
	}
	return sum
}

// wait is how long until n tokens are there, in microseconds, by the range of what is
// left.
func (a *account) wait(n int64, left *big.Rat) int64 {
	missing := new(big.Rat).Sub(whole(n), left)
	if missing.Sign() <= 0 {
		return 0
	}
	ticks := missing.Quo(missing, a.rate)
	up := new(big.Int).Add(ticks.Num(), new(big.Int).Sub(ticks.Denom(), big.NewInt(1)))
	up.Quo(up, ticks.Denom())
	return (a.at/a.exact.Tick+up.Int64())*a.exact.Tick - a.at
}

// take takes tokens that are due after a wait: the bucket at that moment cannot be more
// than full.
func (a *account) take(tokens *big.Rat, wait int64) {
	switch a.kind() {
	case rules.SlidingWindow:
		a.log = append(a.log, spent{at: a.at, tokens: tokens})
	case rules.TokenBucket:
		until := new(big.Rat).Mul(a.rate, a.ticks(a.at, a.at+wait))
		for _, left := range []*big.Rat{a.least, a.most} {
			if left.Add(left, until); left.Cmp(whole(a.Capacity)) > 0 {
				left.SetInt64(a.Capacity)
			}
			left.Sub(left, until)
			left.Sub(left, tokens)
		}
		a.last = max(a.last, a.at+wait)
	default:
		a.least.Sub(a.least, tokens)
		a.most.Sub(a.most, tokens)
	}
}

func (a *account) clone() *account {
	c := *a
	c.least, c.most = new(big.Rat).Set(a.least), new(big.Rat).Set(a.most)
	c.log, c.slots = slices.Clone(a.log), maps.Clone(a.slots)
	return &c
}

// floor is a number rounded down.
func floor(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}

// rangeOf is a range in words.
func rangeOf(least, most *big.Rat) string {
	if least.Cmp(most) == 0 {
		return least.FloatString(6)
	}
	return least.FloatString(6) + " to " + most.FloatString(6)
}
