package bucket

import (
	"slices"
	"time"
)

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

// View is a bucket set brought to one moment for one list of bands.
type View struct {
	// Now is the moment, in microseconds of the store's clock.
	Now int64
	// Hold is how long from Now until the last take that waited is due.
	Hold int64
	// Levels are the used units per band.
	Levels [MaxBands]int64
	// Steps has the rest of the state of bands that are no token buckets. It is
	// nil if there are none.
	Steps []Steps
	// Holder is who takes.
	Holder HolderID
	// same is whether the bands are those of all slots, in their order.
	same bool
}

// View brings the state to now.
func (s *State) View(bands []Band, now int64, v *View) {
	v.Now, v.Hold = now, s.holdAt(now)
	v.same = s.asksForAll(bands)
	for i := range bands {
		k, own := i, true
		if !v.same {
			k, own = s.find(bands, i)
		}
		var slot *Slot
		if k >= 0 && k < len(s.Slots) {
			slot = &s.Slots[k]
		}
		switch {
		case bands[i].Kind != TokenBucket:
			v.step(bands, i, slot, s.At)
		case slot == nil:
			v.Levels[i] = 0
		case own:
			v.Levels[i] = slot.level(s.At, now)
		default:
			v.Levels[i] = bands[i].carried(slot, s.At, now)
		}
	}
}

// holdAt is how long after now the last take that waited is due.
func (s *State) holdAt(now int64) int64 { return max(0, s.Hold-max(0, now-s.At)) }

// find returns the slot that band i continues, or -1, and whether the band is that of the
// slot: else what is used carries over. Slots are matched by id. A band that has none takes
// over the slot at its position if that is no other band's: its label has changed.
func (s *State) find(bands []Band, i int) (slot int, own bool) {
	b := &bands[i]
	if k, own := s.findID(b, i); k >= 0 || b.Kind == Concurrency {
		return k, own
	}
	k := s.place(bands, i)
	if k >= len(s.Slots) {
		return -1, false
	}
	other := &s.Slots[k]
	isOther := func(b Band) bool { return b.ID == other.ID && b.Kind != Concurrency }
	if other.Since > 0 || slices.ContainsFunc(bands, isOther) {
		return -1, false
	}
	return k, other.isOf(b)
}

// findID returns the slot with the id of band b, which is most likely at position i, or -1,
// and whether the band is that of the slot. A settlement looks no further: the slot at the
// position may have begun after the take, with another label.
func (s *State) findID(b *Band, i int) (slot int, own bool) {
	// The bands have almost always the same positions as at the last write.
	if i < len(s.Slots) && s.Slots[i].ID == b.ID && s.Slots[i].isOf(b) {
		return i, true
	}
	found := -1
	for k := range s.Slots {
		switch other := &s.Slots[k]; {
		case b.Kind == Concurrency || other.Kind == Concurrency:
			// Requests under way and tokens do not compare. A rule has one such band.
			if b.Kind == other.Kind {
				return k, true
			}
		case other.ID != b.ID:
		case other.isOf(b):
			return k, true
		case found < 0:
			found = k
		}
	}
	return found, false
}

// place is the slot at the position of band i. The concurrency band does not count, of which
// there is at most one: Redis has its slots elsewhere.
func (s *State) place(bands []Band, i int) int {
	if slices.ContainsFunc(bands[:i], func(b Band) bool { return b.Kind == Concurrency }) {
		i--
	}
	if k := slices.IndexFunc(s.Slots, func(other Slot) bool { return other.Kind == Concurrency }); k >= 0 && k <= i {
		i++
	}
	return i
}

// isOf reports whether a slot is measured as the band is: a token bucket with the same
// numbers, a window with the same period, other kinds with any.
func (s *Slot) isOf(b *Band) bool {
	switch {
	case s.Kind != b.Kind || s.Shared && s.Limit != b.Limit:
		return false
	case s.Kind == Window:
		return s.Steps.Length == b.SlotLength()
	}
	return s.Kind != TokenBucket || s.Limit == b.Limit && s.Rate == b.Rate && s.Tick == b.TickPower()
}

// slot is what is stored of band i.
func (v *View) slot(bands []Band, i int) Slot {
	b := &bands[i]
	slot := Slot{ID: b.ID, Used: v.Levels[i], Limit: b.Limit, Kind: b.Kind}
	if b.Kind == TokenBucket {
		slot.Rate, slot.Tick = b.Rate, b.TickPower()
		return slot
	}
	steps := v.Steps[i]
	slot.Steps = &steps
	if b.Kind == Quota {
		slot.Limit = steps.Largest
	}
	return slot
}

// Store writes the view back. Bands that were not asked for keep their state. So does a
// token bucket under other numbers: while gateways with two versions of a rule take turns,
// each version counts by itself, and what one takes the other has less of, in proportion.
// A window with another period does too, by the number: the shorter one would forget the rest.
// It reuses the state's memory where it can, and reports whether it keeps such a slot.
func (s *State) Store(bands []Band, v *View) (keeps bool) {
	if len(s.Slots) > 0 && !v.same && !s.asksForAll(bands) {
		s.Slots = s.keep(bands, v)
		s.At, s.Hold = v.Now, v.Hold
		return len(s.Slots) > len(bands)
	}
	s.At, s.Hold = v.Now, v.Hold
	for i := range bands {
		switch {
		case i == len(s.Slots):
			s.Slots = append(s.Slots, v.slot(bands, i))
		case bands[i].Kind == TokenBucket: // the rest is as it was
			s.Slots[i].Used, s.Slots[i].Shared = v.Levels[i], false
		default:
			s.Slots[i] = v.slot(bands, i)
		}
	}
	return false
}

// asksForAll reports whether the bands are those of all slots, in their order.
func (s *State) asksForAll(bands []Band) bool {
	if len(s.Slots) == 0 {
		return true
	}
	if len(s.Slots) != len(bands) {
		return false
	}
	for i := range bands {
		if slot := &s.Slots[i]; slot.ID != bands[i].ID || slot.Since > 0 || !slot.isOf(&bands[i]) {
			return false
		}
	}
	return true
}

// keep returns the slots of the bands, and behind them those that are kept.
func (s *State) keep(bands []Band, v *View) []Slot {
	var before View
	s.View(bands, v.Now, &before)
	slots := make([]Slot, len(bands), len(bands)+len(s.Slots))
	asked := make([]bool, len(s.Slots))
	split := map[uint32]int64{} // since when two versions of a band count apart, by id
	for i := range bands {
		slots[i] = v.slot(bands, i)
		if k, own := s.find(bands, i); own || k >= 0 && s.Slots[k].Shared {
			asked[k] = true
			if bands[i].Kind != Concurrency {
				split[s.Slots[k].ID] = s.Slots[k].sinceAt(s.At, v.Now)
			}
		}
	}
	for k, slot := range s.Slots {
		kept := slots[len(bands):]
		// Holders are kept whatever else is: their band is never another version of one that counts.
		if asked[k] || slot.Kind != Concurrency && (len(kept) >= maxKept || slices.ContainsFunc(kept, slot.isVersionOf)) {
			continue
		}
		slot.bring(s.At, v.Now)
		if slot.Since == 0 {
			if slot.Since = split[slot.ID]; slot.Since == 0 {
				slot.Since = v.Now
			}
		}
		for i := range bands {
			switch units := v.Levels[i] - before.Levels[i]; {
			case slot.ID != bands[i].ID || slot.Kind != bands[i].Kind:
			case slot.Kind == TokenBucket:
				slot.debit(scaled(units, slot.Limit, bands[i].Limit, true))
			case slot.Kind == Window:
				slot.change(bands[i], v.Now, func(*View) int64 { return units })
			}
		}
		if slot.emptyAt(v.Now) > v.Now {
			slots = append(slots, slot)
		}
	}
	return slots
}

// isVersionOf reports whether two slots that count are of the same band and kind.
func (s *Slot) isVersionOf(other Slot) bool { return s.ID == other.ID && s.Kind == other.Kind }

// debit adds what another version of the band has taken, up to an empty bucket.
func (s *Slot) debit(units int64) {
	s.Used = max(s.Used, min(s.Limit, s.Used+units))
}

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

// Grant is how many whole tokens every band has now, but at least least and at
// most cost.
func (v *View) Grant(bands []Band, least, cost int64) int64 {
	grant := cost
	for i := range bands {
		left := bands[i].Remaining(v.Levels[i])
		if bands[i].Kind == Concurrency && (left > 0 || v.Holder == HolderID{}) {
			continue // one slot is enough, and a demand without a holder needs none
		}
		grant = min(grant, left)
	}
	return max(grant, least)
}

// Affordable reports whether cost can ever pass every band.
func Affordable(bands []Band, cost int64) bool {
	for i := range bands {
		if cost > bands[i].Capacity && bands[i].Kind != Concurrency {
			return false
		}
	}
	return true
}

// Wait is the longest wait of any band until cost fits, in microseconds; 0 if
// it fits now. cost must be affordable.
func (v *View) Wait(bands []Band, cost int64) int64 {
	var wait int64
	for i := range bands {
		wait = max(wait, v.WaitOf(bands, i, cost))
	}
	return wait
}

// WaitOf is how long until cost fits band i, in microseconds; 0 if it fits now.
// cost must not be above its capacity.
func (v *View) WaitOf(bands []Band, i int, cost int64) int64 {
	switch b := &bands[i]; {
	case b.Kind == TokenBucket:
		return b.Wait(v.Levels[i], cost, v.Now)
	case b.Kind == Concurrency && v.price(b, cost) == 0:
		return 0
	default:
		return v.fits(b, i, b.Limit-v.price(b, cost))
	}
}

// PositiveAfter is how long until band i has more than 0 left for an overdraft; 0 if it has
// now.
func (v *View) PositiveAfter(bands []Band, i int) int64 {
	switch b := &bands[i]; b.Kind {
	case TokenBucket:
		return b.PositiveAfter(v.Levels[i], v.Now)
	case Concurrency:
		return 0 // an overdraft holds no slot
	default:
		return v.fits(b, i, b.Limit-1)
	}
}

// OverFor is how long band i, which counts refused hits, is above its limit with cost; 0 if
// it is not. One hit above the capacity is over in every period.
func (v *View) OverFor(bands []Band, i int, cost int64) int64 {
	b := &bands[i]
	if v.Levels[i]+b.units(cost) <= b.Limit {
		return 0
	}
	return v.Steps[i].End - v.Now
}

// Take books cost in every band, each at the tick it is due in that band. The
// cost must be affordable, and the caller must have accepted the wait.
func (v *View) Take(bands []Band, cost int64) {
	for i := range bands {
		switch b := &bands[i]; b.Kind {
		case TokenBucket:
			wait := b.Wait(v.Levels[i], cost, v.Now)
			v.Levels[i] = b.book(v.Levels[i], cost, wait, v.Now)
			v.Hold = max(v.Hold, wait)
		case Concurrency:
			v.hold(b, i)
		case Quota, Window:
			v.add(b, i, cost*b.Unit)
		}
	}
}

// Overdraw debits cost from every band, up to its largest debt. It reports the
// whole tokens by which the band that moved least was debited, and whether
// anything changed at all.
func (v *View) Overdraw(bands []Band, cost int64) (tokens int64, changed bool) {
	tokens = cost
	for i := range bands {
		if bands[i].Kind == Concurrency {
			continue // what has been used already is not under way
		}
		units := bands[i].charge(v.Levels[i], cost)
		v.add(&bands[i], i, units)
		tokens = min(tokens, units/bands[i].Unit)
		changed = changed || units > 0
	}
	return tokens, changed
}

// FullAfterOf is how long until band i is full, in microseconds.
func (v *View) FullAfterOf(bands []Band, i int) int64 {
	if b := &bands[i]; b.Kind != TokenBucket {
		return v.emptyAfter(b, i)
	}
	return bands[i].FullAfter(v.Levels[i], v.Now)
}
