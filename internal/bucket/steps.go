package bucket

import (
	"slices"
	"time"
)

// Steps is the rest of the state of a band that is no token bucket.
type Steps struct {
	// End is when the period of a quota ends. A new one begins when the store's
	// clock passes it, whatever the calendars of gateways say. Longest is how long
	// another one lasts at most, and Largest the largest limit that this one had: what
	// is used beyond it is paid by the next.
	End, Longest, Largest int64
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

// period is that of a window.
func (s *Steps) period() time.Duration {
	return time.Duration(s.Length*windowSlots) * time.Microsecond
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

// step brings a band that regains by steps to now, from the slot that it continues, or nil.
func (v *View) step(bands []Band, i int, s *Slot, at int64) {
	if len(v.Steps) == 0 { // the caller may have lent memory
		v.Steps = slices.Grow(v.Steps, len(bands))[:len(bands)]
	}
	b, to := &bands[i], &v.Steps[i]
	*to = Steps{}
	var used int64
	if s != nil && s.Kind != b.Kind {
		used = b.carried(s, at, v.Now)
		s = nil
	}
	switch b.Kind {
	case Concurrency:
		if s != nil {
			to.Holders = s.Steps.Holders
			used, to.First, to.Last = to.Holders.held(v.Now)
		}
	case Quota:
		var begin int64
		begin, to.End = b.period(v.Now)
		to.Longest, to.Largest = b.Period.Microseconds(), b.Limit
		if s != nil {
			used = b.quota(s, begin, v.Now, to)
		} else if at < begin {
			used = 0 // of an earlier period
		}
	case Window:
		to.Length = b.SlotLength()
		to.Newest = v.Now / to.Length
		if s != nil {
			used = b.window(s, at, v.Now, to)
		} else if k := max(0, to.Newest-at/to.Length); k <= windowSlots {
			to.Counts[k] = used
		} else {
			used = 0 // it has left
		}
	case TokenBucket:
	}
	v.Levels[i] = used
}

// quota brings a quota to now, and returns what is used. A change of the limit does not
// change that; only what was used beyond every limit of a period is paid by the next.
func (b *Band) quota(s *Slot, begin, now int64, to *Steps) (used int64) {
	used, limit := s.Used, s.Limit
	if s.Shared && limit != b.Limit {
		used, limit = scaled(used, b.Limit, limit, true), b.Limit
	}
	switch end := s.Steps.End; {
	case end > now:
		to.End, to.Longest, to.Largest = end, max(to.Longest, s.Steps.Longest), max(b.Limit, limit)
		return used
	case end >= begin && !b.CountsRefused:
		return min(max(0, used-limit), b.Limit) // of which no part is for the one after it
	}
	return 0
}

// window brings the counts of a window to now, and returns their sum.
func (b *Band) window(s *Slot, at, now int64, to *Steps) (used int64) {
	brought := *s
	brought.bring(at, now)
	from := brought.Steps
	// Where the store's clock stepped back, no time has passed: the newest slot is
	// the one after the current one, because the current one may be about to end.
	if from.Newest*from.Length/to.Length > to.Newest {
		to.Newest++
	}
	newest := from.Newest
	if from.Length == to.Length {
		newest = min(newest, to.Newest)
	}
	for k, units := range from.Counts {
		// The slot of its last moment, if the length of slots has changed.
		number := newest - int64(k)
		if from.Length != to.Length {
			number = min(((number+1)*from.Length-1)/to.Length, to.Newest)
		}
		at := to.Newest - number
		if units == 0 || at > windowSlots {
			continue
		}
		if s.Shared {
			units = scaled(units, b.Limit, s.Limit, true)
		}
		to.Counts[at] += units
		used += units
	}
	return used
}

// usedAt is what a window has used that counts at a moment.
func (s *Steps) usedAt(now int64) (used int64) {
	for k, units := range s.Counts {
		if s.leaves(k) > now {
			used += units
		}
	}
	return used
}

// leaves is when the units of a window's slot no longer count.
func (s *Steps) leaves(k int) int64 { return (s.Newest - int64(k) + windowSlots + 1) * s.Length }

// leavesLast is when no units of a window count any more.
func (s *Steps) leavesLast() int64 {
	return s.leaves(slices.IndexFunc(s.Counts[:], func(units int64) bool { return units > 0 }))
}

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
		if b.CountsRefused || level-steps.Largest <= most {
			return steps.End - v.Now
		}
		return b.EdgeAfter(steps.End) - v.Now
	}
	if b.Kind == Concurrency {
		return max(1, min(steps.First-v.Now, holdersRetry))
	}
	for k := windowSlots; k > 0; k-- {
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

// emptyAfter is how long until nothing is used of a band that regains by steps.
func (v *View) emptyAfter(b *Band, i int) int64 {
	switch steps := &v.Steps[i]; {
	case v.Levels[i] <= 0:
		return 0
	case b.Kind == Concurrency:
		return steps.Last - v.Now
	case b.Kind == Window:
		return steps.leavesLast() - v.Now
	case v.inDebt(b, i):
		return b.EdgeAfter(steps.End) - v.Now
	default:
		return steps.End - v.Now
	}
}

// inDebt reports whether the next period of a quota pays for this one.
func (v *View) inDebt(b *Band, i int) bool {
	return b.Kind == Quota && !b.CountsRefused && v.Levels[i] > v.Steps[i].Largest
}

// giveBack is what may come back to a band that regains by steps, in units, of
// units that were taken at a moment and are due at another: for a quota, the end
// of its period. What has come back already does not come back again.
func (v *View) giveBack(b *Band, i int, units, at, due int64) int64 {
	steps := &v.Steps[i]
	if b.Kind == Quota {
		if steps.End != due {
			return 0
		}
		return max(0, min(units, v.Levels[i]))
	}
	k := steps.Newest - at/steps.Length
	if k > windowSlots {
		return 0
	}
	units = min(units, steps.Counts[k])
	steps.Counts[k] -= units
	steps.Counts[0] += units // which add subtracts
	return units
}

// SetUsed sets how many tokens of a band are used and when it will be full, where
// nothing else is known. Requests that are under way are held where they were taken: the
// slots of a concurrency band are those of a state.
func (v *View) SetUsed(bands []Band, i int, held *State, tokens, fullAfter int64) {
	b := &bands[i]
	switch b.Kind {
	case TokenBucket:
		v.Levels[i] = b.LevelOf(fullAfter, v.Now)
		return
	case Concurrency:
		var slot *Slot
		if k, _ := held.find(bands, i); k >= 0 {
			slot = &held.Slots[k]
		}
		v.step(bands, i, slot, held.At)
		return
	case Quota, Window:
	}
	v.step(bands, i, nil, v.Now)
	v.add(b, i, min(b.Max, tokens*b.Unit))
	if b.Kind == Quota && tokens > 0 && (tokens <= b.Capacity || b.CountsRefused) {
		v.Steps[i].End = v.Now + fullAfter
	}
}
