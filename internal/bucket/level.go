package bucket

import "math/bits"

// Level brings a stored slot to this band's numbers and to now: the units
// that are used. at is when the slot was written. A clock that has stepped
// back counts as no time passed.
func (b *Band) Level(s Slot, at, now int64) int64 {
	used := min(s.Used, b.Max) // a change of the rate alone changes the largest debt
	if s.Limit != b.Limit {
		used = b.carry(s)
	}
	return b.drain(used, at, now)
}

// drain subtracts from used what came back over time.
func (b *Band) drain(used, at, now int64) int64 {
	return max(0, used-b.regain(b.ticks(at, now)))
}

// regain is what comes back in so many ticks, in units, up to MaxUnits, which
// is more than any bucket can use: an idle year would overflow the product.
func (b *Band) regain(ticks int64) int64 {
	if ticks <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(ticks), uint64(b.Rate))
	if hi != 0 || lo > MaxUnits {
		return MaxUnits
	}
	return int64(lo)
}

// ticks is how many ticks of this band lie between two moments. It is the
// difference of two floors, which telescopes over any number of calls; the
// floor of the difference would lose part of a tick on each.
func (b *Band) ticks(from, to int64) int64 {
	if b.Tick == 1 {
		return to - from
	}
	return to/b.Tick - from/b.Tick
}

// carry scales what was used under other numbers to this band's, in
// proportion to the capacity and rounded against the caller. Debt carries
// over too: a change of the rule is not a refill.
func (b *Band) carry(s Slot) int64 {
	if s.Limit <= 0 {
		return b.Limit // invalid state: assume it is used up
	}
	hi, lo := bits.Mul64(uint64(s.Used), uint64(b.Limit))
	if hi >= uint64(s.Limit) {
		return b.Max
	}
	quotient, rest := bits.Div64(hi, lo, uint64(s.Limit))
	if rest > 0 {
		quotient++
	}
	return int64(min(quotient, uint64(b.Max)))
}

// Wait is how long, in microseconds from now, until cost tokens fit on top of
// level; 0 if they fit now. cost must not be above the capacity.
func (b *Band) Wait(level, cost, now int64) int64 {
	over := level + cost*b.Unit - b.Limit
	if over <= 0 {
		return 0
	}
	return b.after(over, now)
}

// PositiveAfter is how long, in microseconds from now, until less than the
// limit is used; 0 if it is now.
func (b *Band) PositiveAfter(level, now int64) int64 {
	if level < b.Limit {
		return 0
	}
	return b.after(level-b.Limit+1, now)
}

// FullAfter is how long, in microseconds from now, until nothing is used.
func (b *Band) FullAfter(level, now int64) int64 {
	if level <= 0 {
		return 0
	}
	return b.after(level, now)
}

// LevelOf is the level, at most the largest debt, of a bucket that is full after
// so many microseconds from now. It is the inverse of FullAfter, rounded up.
func (b *Band) LevelOf(fullAfter, now int64) int64 {
	if fullAfter <= 0 {
		return 0
	}
	return min(b.Max, b.regain(b.ticks(now, now+fullAfter+b.Tick-1)))
}

// Regained is what comes back in so many microseconds, in tokens of other bands
// with so many units each, and at most the capacity.
func (b *Band) Regained(micros int64, unit int64) int64 {
	hi, lo := bits.Mul64(uint64(min(b.Limit, b.regain(micros/b.Tick))), uint64(unit))
	units, _ := bits.Div64(hi, lo, uint64(b.Unit)) // at most Limit·unit ÷ Unit, which is a capacity
	return int64(units)
}

// WithUnit is the band with tokens of another size. A demand for n of them takes
// n·unit units, whatever the size of the tokens of its other bands.
func (b Band) WithUnit(unit int64) Band {
	b.Unit, b.Capacity = unit, b.Limit/unit
	return b
}

// after is how long from now until units have come back, at a tick's edge.
func (b *Band) after(units, now int64) int64 {
	ticks := ceilDiv(units, b.Rate)
	if b.Tick == 1 {
		return ticks
	}
	return (now/b.Tick+ticks)*b.Tick - now
}

// Remaining is how many whole tokens are left at level.
func (b *Band) Remaining(level int64) int64 {
	return max(0, b.Limit-level) / b.Unit
}

// Owed is how many tokens are booked beyond the limit at level, rounded up.
func (b *Band) Owed(level int64) int64 {
	return ceilDiv(max(0, level-b.Limit), b.Unit)
}

// book is the level after taking cost tokens that are due wait microseconds
// from now: the bucket brought to the due tick, where it cannot be more than
// full, taken from, and wound back.
func (b *Band) book(level, cost, wait, now int64) int64 {
	if wait > 0 {
		level = max(level, b.regain(b.ticks(now, now+wait)))
	}
	return level + cost*b.Unit
}
