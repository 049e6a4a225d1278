package bucket

import "slices"

// Steps is the rest of the state of a band that is no token bucket.
type Steps struct {
	// End is when the period of a quota ends. A new one begins when the store's
	// clock passes it, whatever the calendars of gateways say.
	End int64
	// Counts are the units that a window took in each of its slots, the newest
	// first. Newest is its number since 1970, and Length how long a slot is.
	Newest, Length int64
	Counts         [windowSlots + 1]int64
	// First and Last are when the first and the last holder of a concurrency band
	// lose their slots. Holders is nil where they are in Redis.
	First, Last int64
	Holders     *Holders
}

// SlotLength is the length of a window's slots in microseconds.
func (b *Band) SlotLength() int64 { return b.Period.Microseconds() / windowSlots }

// sameNumbers reports whether a slot was written under the numbers of the band.
func (b *Band) sameNumbers(s Slot) bool {
	return s.Kind == b.Kind && s.Limit == b.Limit && (b.Kind != Window || s.Steps != nil && s.Steps.Length == b.SlotLength())
}

// period is the period of a quota at a moment, by the edges that the gateway
// sent. A gateway whose clock is wrong by more than a period sent others: periods
// as long as its own are assumed then.
func (b *Band) period(now int64) (begin, end int64) {
	first, second, third := b.Edges[0], b.Edges[1], b.Edges[2]
	switch length := max(1, second-first); {
	case now < first:
		end = first - (first-now-1)/length*length
		return end - length, end
	case now < second:
		return first, second
	case now < third:
		return second, third
	default:
		end = third + ((now-third)/length+1)*length
		return end - length, end
	}
}

// step brings the slot of a band that regains by steps to now.
func (v *View) step(bands []Band, i int, s Slot, stored bool) {
	if v.Steps == nil {
		v.Steps = make([]Steps, len(bands))
	}
	b, to := &bands[i], &v.Steps[i]
	*to = Steps{}
	var used int64
	if stored && s.Limit != b.Limit {
		used = b.carry(s)
	} else if stored {
		used = s.Used
	}
	switch {
	case b.Kind == Concurrency:
		if s.Steps != nil {
			*to = *s.Steps
		}
		if to.Holders != nil {
			used, to.First, to.Last = to.Holders.held(v.Now, b.Period.Microseconds())
		} else {
			// The store may remember holders for longer than it holds their slots.
			used, to.Last = s.Used, min(to.Last, v.Now+b.Period.Microseconds())
		}
	case b.Kind == Quota:
		var begin int64
		begin, to.End = b.period(v.Now)
		if s.Kind == Quota && s.Steps != nil {
			switch end := s.Steps.End; {
			case end > v.Now:
				to.End = end
			case end >= begin:
				used = max(0, used-b.Limit) // debt is paid by the new period
			default:
				used = 0
			}
		}
	case s.Kind == Window && s.Steps != nil:
		used = b.window(s, v.Now, to)
	default:
		to.Length = b.SlotLength()
		to.Newest = v.Now / to.Length
		to.Counts[0] = used
	}
	v.Levels[i] = used
}

// window brings the counts of a window to now, and returns their sum.
func (b *Band) window(s Slot, now int64, to *Steps) (used int64) {
	to.Length = b.SlotLength()
	current := now / to.Length
	// Where the store's clock stepped back, no time has passed: the newest slot is
	// the one after the current one, because the current one may be about to end.
	to.Newest = current
	if s.Steps.Newest*s.Steps.Length/to.Length > current {
		to.Newest++
	}
	newest := s.Steps.Newest
	if s.Steps.Length == to.Length {
		newest = min(newest, current+1)
	}
	for k, units := range s.Steps.Counts {
		// The slot of its last moment, if the length of slots has changed.
		number := newest - int64(k)
		if s.Steps.Length != to.Length {
			number = min(((number+1)*s.Steps.Length-1)/to.Length, to.Newest)
		}
		at := to.Newest - number
		if units == 0 || at > windowSlots {
			continue
		}
		if s.Limit != b.Limit {
			units = b.carry(Slot{Used: units, Limit: s.Limit})
		}
		units = min(units, b.Max-used)
		to.Counts[at] += units
		used += units
	}
	return used
}

// leaves is when the units of a window's slot no longer count.
func (s *Steps) leaves(k int) int64 { return (s.Newest - int64(k) + windowSlots + 1) * s.Length }

// add takes units, or gives them back where negative, in the newest slot.
func (v *View) add(b *Band, i int, units int64) {
	v.Levels[i] += units
	if b.Kind == Window {
		v.Steps[i].Counts[0] += units
	}
}

// fits is how long until at most so many units are used.
func (v *View) fits(b *Band, i int, most int64) int64 {
	level, steps := v.Levels[i], &v.Steps[i]
	if level <= most {
		return 0
	}
	if b.Kind == Quota {
		if level-b.Limit <= most {
			return steps.End - v.Now
		}
		return max(steps.End, b.EdgeAfter(steps.End)) - v.Now
	}
	if b.Kind == Concurrency {
		return max(1, min(steps.First-v.Now, holdersRetry))
	}
	for k := windowSlots; k >= 0; k-- {
		if level -= steps.Counts[k]; level <= most {
			return steps.leaves(k) - v.Now
		}
	}
	return steps.leaves(0) - v.Now
}

// holdersRetry is when to try again where all slots are held: one may be free at any
// time.
const holdersRetry = 1_000_000

// EdgeAfter is, for a quota, the end of the period that begins at a moment.
func (b *Band) EdgeAfter(moment int64) int64 {
	_, end := b.period(moment)
	return end
}

// emptyAfter is how long until nothing is remembered of a band, at least.
func (v *View) emptyAfter(b *Band, i int) int64 {
	level, steps := v.Levels[i], &v.Steps[i]
	switch {
	case level <= 0:
		return 0
	case b.Kind == Concurrency:
		return steps.Last - v.Now
	case b.Kind == Window:
		newest := slices.IndexFunc(steps.Counts[:], func(units int64) bool { return units > 0 })
		return steps.leaves(max(0, newest)) - v.Now
	case level > b.Limit: // the next period may be any of its kind
		return steps.End - v.Now + b.Period.Microseconds()
	}
	return steps.End - v.Now
}

// giveBack is what may come back to a band that regains by steps, in units, of
// tokens that were taken at a moment and are due at another: for a quota, the end
// of its period. What has come back already does not come back again.
func (v *View) giveBack(b *Band, i int, tokens, at, due int64) int64 {
	steps := &v.Steps[i]
	if b.Kind == Quota {
		if steps.End != due {
			return 0
		}
		return max(0, min(tokens*b.Unit, v.Levels[i]))
	}
	k := steps.Newest - at/steps.Length
	if k < 0 || k > windowSlots {
		return 0
	}
	units := min(tokens*b.Unit, steps.Counts[k])
	steps.Counts[k] -= units
	steps.Counts[0] += units // which add subtracts
	return units
}

// SetUsed sets how many tokens of a band are used and when it will be full, where
// nothing else is known.
func (v *View) SetUsed(bands []Band, i int, tokens, fullAfter int64) {
	b := &bands[i]
	if b.Kind == TokenBucket {
		v.Levels[i] = b.LevelOf(fullAfter, v.Now)
		return
	}
	v.step(bands, i, Slot{}, false)
	if b.Kind == Concurrency {
		return // requests that are under way are held where they were taken
	}
	v.add(b, i, min(b.Max, tokens*b.Unit))
	if b.Kind == Quota && tokens > 0 && tokens <= b.Capacity {
		v.Steps[i].End = v.Now + fullAfter
	}
}
