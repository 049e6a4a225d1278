package bucket

import "math/bits"

// level is what is used of a token bucket's slot that was written at a moment: less what
// has come back since. A clock that has stepped back counts as no time passed.
func (s *Slot) level(at, now int64) int64 {
	return max(0, s.Used-regain(s.Rate, ticks(Ticks[s.Tick], at, now)))
}

// regain is what comes back in so many ticks, in units, up to MaxUnits, which
// is more than any bucket can use: an idle year would overflow the product.
func regain(rate, ticks int64) int64 {
	hi, lo := bits.Mul64(uint64(max(0, ticks)), uint64(rate))
	if hi != 0 {
		return MaxUnits
	}
	return int64(min(lo, MaxUnits))
}

// ticks is how many ticks lie between two moments. It is the difference of two floors,
// which telescopes over any number of calls; the floor of the difference would lose part
// of a tick on each.
func ticks(tick, from, to int64) int64 {
	if tick == 1 {
		return to - from
	}
	return to/tick - from/tick
}

// carried is the level of a band that continues a slot with other numbers or of another
// kind, which was written at a moment. A token bucket has the same part used, rounded against
// the caller. Bands that count carry the number itself.
//
// When the rule changed since then is not known. A token bucket regains as if it was at once,
// or not yet, whichever is more: a request that is refused writes nothing, and must not wait
// for the former numbers. Bands that count remember the moment.
func (b *Band) carried(s *Slot, at, now int64) int64 {
	used, written := s.Used, s.Used
	switch s.Kind {
	case TokenBucket:
		used = s.level(at, now)
	case Quota:
		if s.Steps.End <= now {
			used = 0
		}
	case Window:
		used = s.Steps.usedAt(now)
	case Concurrency:
	}
	if s.Kind != TokenBucket && b.Kind != TokenBucket && !s.Shared {
		return used
	}
	if s.Limit <= 0 {
		return b.Limit // invalid state: assume it is used up
	}
	used = min(scaled(used, b.Limit, s.Limit, true), b.Max)
	if b.Kind != TokenBucket || s.Shared {
		return used
	}
	written = min(scaled(written, b.Limit, s.Limit, true), b.Max)
	return min(used, max(0, written-regain(b.Rate, ticks(b.Tick, at, now))))
}

// scaled is units · to ÷ from, at most MaxUnits, rounded up or down.
func scaled(units, to, from int64, up bool) int64 {
	if units <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(units), uint64(to))
	if hi >= uint64(from) {
		return MaxUnits
	}
	quotient, rest := bits.Div64(hi, lo, uint64(from))
	if rest > 0 && up {
		quotient++
	}
	return int64(min(quotient, MaxUnits))
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
	return min(b.Max, regain(b.Rate, ticks(b.Tick, now, now+fullAfter+b.Tick-1)))
}

// Regained is what comes back in so many microseconds, in tokens of other bands
// with so many units each, and at most the capacity.
func (b *Band) Regained(micros int64, unit int64) int64 {
	hi, lo := bits.Mul64(uint64(min(b.Limit, regain(b.Rate, micros/b.Tick))), uint64(unit))
	units, _ := bits.Div64(hi, lo, uint64(b.Unit)) // at most Limit·unit ÷ Unit, which is a capacity
	return int64(units)
}

// WithUnit is the band with tokens of another size. A demand for n of them takes
// n·unit units, whatever the size of the tokens of its other bands. Settle does not touch
// a band with units of 0.
func (b Band) WithUnit(unit int64) Band {
	b.Unit, b.Capacity = unit, b.Limit/max(1, unit)
	return b
}

// after is how long from now until units have come back, at a tick's edge.
func (b *Band) after(units, now int64) int64 { return after(units, b.Rate, b.Tick, now) }

func after(units, rate, tick, now int64) int64 {
	ticks := ceilDiv(units, rate)
	if tick == 1 {
		return ticks
	}
	return (now/tick+ticks)*tick - now
}

// Remaining is how many whole tokens are left at level.
func (b *Band) Remaining(level int64) int64 {
	return max(0, b.Limit-level) / b.Unit
}

// Owed is how many tokens are booked beyond the limit at level, rounded up.
func (b *Band) Owed(level int64) int64 {
	if level <= b.Limit {
		return 0 // without a division
	}
	return ceilDiv(level-b.Limit, b.Unit)
}

// book is the level after taking cost tokens that are due wait microseconds
// from now: the bucket brought to the due tick, where it cannot be more than
// full, taken from, and wound back.
func (b *Band) book(level, cost, wait, now int64) int64 {
	return max(level, regain(b.Rate, ticks(b.Tick, now, now+wait))) + cost*b.Unit
}
