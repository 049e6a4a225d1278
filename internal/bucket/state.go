package bucket

import "time"

// Slot is the stored state of one band: what is used, and the numbers it was written
// under, which are all that is needed to bring it to another moment or to other numbers.
type Slot struct {
	// ID and Kind are the band's.
	ID   uint32
	Kind Kind
	// Tick is the power of 1,000 that the tick of the token bucket that wrote it has in
	// microseconds.
	Tick uint8
	// Shared marks the level of a shared store in the memory of a gateway. The gateway
	// continues with its share of the limit, so it carries over in proportion for every kind.
	Shared bool
	// Used is what is used, in units of the band that wrote it.
	Used int64
	// Limit is the limit of the band that wrote it. For a quota it is the largest in its
	// period: what is used beyond it is debt.
	Limit int64
	// Rate is that of the token bucket that wrote it.
	Rate int64
	// Since is, of a slot that is kept, when a take first did not ask for it, else 0.
	Since int64
	// Steps is the rest of the state of other kinds than token buckets.
	Steps *Steps
}

// State is the stored state of one bucket set: all bands of one rule for one key. The
// zero State is a full bucket set.
//
// The slots of the last take come first, in the order of its bands. Slots that it did not
// ask for are kept behind them: bands that only another version of the rule has, token buckets
// under other numbers, and windows with other periods. See [State.Store].
type State struct {
	// At is when it was written, in microseconds of the store's clock.
	At int64
	// Hold is how long after At the last take that waited is due.
	Hold int64
	// Slots are the slots of the last take, and those that are kept.
	Slots []Slot
}

const (
	// KeptFor is for how long a slot is kept that no take asks for. A change of rules has
	// to reach all gateways in this time.
	KeptFor = time.Hour
	// maxKept bounds how many slots are kept.
	maxKept = MaxBands
)

// holdAt is how long after now the last take that waited is due.
func (s *State) holdAt(now int64) int64 { return max(0, s.Hold-max(0, now-s.At)) }

// Adopt follows a clock that has stepped back behind the state: no time has
// passed, and from here on it counts by the new clock. It reports whether it
// changed anything.
func (s *State) Adopt(now int64) (changed bool) {
	changed = now < s.At
	for k := range s.Slots {
		if slot := &s.Slots[k]; now < s.At || slot.Kind == Concurrency && slot.Steps.Holders.after(now) {
			slot.bring(s.At, now)
			changed = true
		}
	}
	s.At = min(s.At, now)
	return changed
}

// bring brings a slot that was written at a moment to now, as far as the state of its kind
// depends on that. A clock that stepped back counts as no time.
func (s *Slot) bring(at, now int64) {
	switch s.Kind {
	case TokenBucket:
		s.Used = s.level(at, now)
	case Window:
		if now < at {
			steps := *s.Steps
			steps.Newest = min(steps.Newest, now/steps.Length+1)
			s.Steps = &steps
		}
	case Concurrency:
		if h := s.Steps.Holders; h.after(now) {
			s.Steps = &Steps{Holders: h.shifted(now - h.at)}
		}
	case Quota: // its end is a moment of the calendar
	}
	s.Since = s.sinceAt(at, now)
}

// sinceAt is Since after the clock went from one moment to another.
func (s *Slot) sinceAt(at, now int64) int64 {
	if s.Since == 0 {
		return 0
	}
	return max(1, s.Since-max(0, at-now))
}

// FullAfter is how long after At every slot is empty, in microseconds: the moment
// from which keeping the state and forgetting it are the same.
func (s *State) FullAfter() int64 {
	full := s.At
	for k := range s.Slots {
		full = max(full, s.Slots[k].emptyAt(s.At))
	}
	return full - s.At
}

// emptyAt is when nothing is left to remember of a slot that was brought to a moment.
func (s *Slot) emptyAt(at int64) int64 {
	empty := at
	switch {
	case s.Kind == Concurrency:
		_, _, empty = s.Steps.Holders.held(at)
	case s.Used <= 0:
	case s.Kind == TokenBucket:
		empty += after(s.Used, s.Rate, Ticks[s.Tick], at)
	case s.Kind == Window:
		empty = s.Steps.leavesLast()
	case s.Used > s.Limit: // the next period may be any of its kind
		empty = s.Steps.End + s.Steps.Longest
	default:
		empty = s.Steps.End
	}
	if s.Since > 0 && s.Kind != Concurrency {
		empty = min(empty, s.Since+KeptFor.Microseconds())
	}
	return empty
}
