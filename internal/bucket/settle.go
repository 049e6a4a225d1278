package bucket

import (
	"math"
	"slices"
)

// charge is what is added to a band for tokens used beyond what was booked,
// in units, as far as the largest debt allows.
func (b *Band) charge(level, tokens int64) int64 {
	return min(max(0, b.Max-level), b.units(tokens))
}

// units is a number of tokens in units, at most MaxUnits.
func (b *Band) units(tokens int64) int64 {
	if tokens > math.MaxInt64/b.Unit {
		return MaxUnits
	}
	return min(MaxUnits, tokens*b.Unit)
}

// Booking is one take of a receipt.
type Booking struct {
	// Cost is what was taken, in tokens.
	Cost int64
	// At is when it was taken and Due when it counts, per band, both in
	// microseconds of the store's clock. No Due means that nothing waited.
	At  int64
	Due []int64
	// Holder is who took it.
	Holder HolderID
}

func (b *Booking) due(i int) int64 {
	if len(b.Due) > i {
		return b.Due[i]
	}
	return b.At
}

// Settle corrects a booking to the cost that is known now: it gives the
// difference back or charges it. It reports the tokens by which the band that
// moved least was corrected, negative for a charge, in whole tokens rounded
// towards zero, and whether anything changed at all. It releases the slots of
// concurrency bands at any cost.
//
// The bands are those of the take, where those with units of 0 stay as they are. Where the
// rule has changed since, the slots of its other versions are corrected as well: token buckets
// in proportion, windows by the number. Slots of other labels stay as they are.
func (s *State) Settle(bands []Band, booked Booking, actual, now int64) (tokens int64, changed bool) {
	work := settling{bands: bands, booked: booked, State: State{At: now, Hold: s.holdAt(now), Slots: slices.Clone(s.Slots)}}
	for k := range work.Slots {
		work.Slots[k].bring(s.At, now)
	}
	difference, released := booked.Cost-actual, false
	tokens = difference
	for i := range bands {
		units := int64(0)
		switch {
		case bands[i].Kind == Concurrency:
			released = work.release(i) || released
			continue
		case bands[i].Unit == 0:
			continue
		case difference > 0 && now >= booked.At: // otherwise the clock stepped back: how much has overflowed is unknown
			units = -work.refund(i, difference)
		case difference < 0:
			units = work.charge(i, -difference)
		}
		changed = changed || units != 0
		if part := -units / bands[i].Unit; difference > 0 {
			tokens = min(tokens, part)
		} else {
			tokens = max(tokens, part)
		}
	}
	if changed = changed || work.changed; changed {
		*s = work.State
	} else if released { // what the other bands have is as it was written: see carried
		s.Adopt(now)
		for k := range s.Slots {
			if s.Slots[k].Kind == Concurrency {
				s.Slots[k] = work.Slots[k]
			}
		}
	}
	return tokens, changed || released
}

// settling is a state that is brought to now, and the take that is settled.
type settling struct {
	State
	bands   []Band
	booked  Booking
	changed bool // another version of a band has
}

// release takes the slot of the holder back, and reports whether it had one.
func (w *settling) release(i int) bool {
	k, _ := w.find(i)
	return k >= 0 && w.Slots[k].Steps.Holders.release(w.booked.Holder, w.At)
}

// refund gives tokens of the cost back to band i, and returns the units. It never creates
// tokens: what may have overflowed since, or was promised to later requests, is lost. The
// package comment has the reason. If the slot of the take is gone, nothing comes back.
func (w *settling) refund(i int, tokens int64) int64 {
	b, due := &w.bands[i], w.booked.due(i)
	k, own := w.find(i)
	if !own || b.Kind == Window && w.At/b.SlotLength()-w.booked.At/b.SlotLength() > windowSlots {
		return 0 // a window of another period may have begun after the take had left its own
	}
	if b.Kind != TokenBucket {
		return w.add(i, k, func(v *View, _ *Slot) int64 { return -v.giveBack(b, 0, b.units(tokens), w.booked.At, due) })
	}
	mine := &w.Slots[k]
	for j := range w.Slots {
		other := &w.Slots[j]
		split := max(mine.Since, other.Since)
		if j == k || other.ID != b.ID || other.Kind != TokenBucket || w.booked.At >= split {
			continue
		}
		// Another version of the band began with what was left of the take, by the rate of
		// either: see [Band.carried].
		most, last := scaled(b.units(w.booked.Cost), other.Limit, b.Limit, false), w.At+w.Hold
		left := scaled(b.units(w.booked.Cost)-regain(b.Rate, ticks(b.Tick, due, split)), other.Limit, b.Limit, false)
		left = min(left+regain(other.Rate, ticks(Ticks[other.Tick], due, split)), most)
		w.changed = other.giveBack(left, scaled(b.units(tokens), other.Limit, b.Limit, false), due, last) > 0 || w.changed
	}
	return mine.giveBack(b.units(w.booked.Cost), b.units(tokens), due, w.At+w.Hold)
}

// giveBack gives units back, at most those of a cost that was due at a moment, less what
// has come back until another moment. It returns how many.
func (s *Slot) giveBack(cost, units, due, last int64) int64 {
	back := max(0, min(units, cost-regain(s.Rate, ticks(Ticks[s.Tick], due, last)), s.Used))
	s.Used -= back
	return back
}

// charge debits tokens from band i as far as the largest debt allows, and returns the
// units. Other versions of the band are emptied at most.
func (w *settling) charge(i int, tokens int64) (units int64) {
	b := &w.bands[i]
	k, own := w.findID(b, i)
	before := w.Slots
	compares := k >= 0 && w.Slots[k].Kind == b.Kind
	switch {
	case own:
	case k < 0 || b.Kind == Window && compares: // a full bucket, or what the window of another period has
		if w.isFull() {
			return 0
		}
		k, own = w.begin(i, k), true
	case b.Kind != TokenBucket || !compares:
		return 0 // what the rule counts now does not compare
	}
	if own && b.Kind != TokenBucket {
		units = w.add(i, k, func(v *View, slot *Slot) int64 {
			room, limit := *b, slot.Limit
			if b.Kind == Quota {
				limit = v.Steps[0].Largest
			}
			if b.Max > b.Limit { // the debt may be that of a higher limit, if there may be debt
				room.Max = max(b.Max, 2*limit)
			}
			return room.charge(v.Levels[0], tokens)
		})
		if units == 0 {
			w.Slots = before
		}
		return units
	}
	if own {
		units = b.charge(w.Slots[k].Used, tokens)
		w.Slots[k].Used += units
	}
	for j := range w.Slots {
		other := &w.Slots[j]
		if j == k && own || other.ID != b.ID || other.Kind != TokenBucket {
			continue
		}
		before := other.Used
		other.debit(scaled(b.units(tokens), other.Limit, b.Limit, true))
		w.changed = w.changed || other.Used > before
		if !own {
			units = max(units, scaled(other.Used-before, b.Limit, other.Limit, false))
		}
	}
	return units
}

// isFull reports whether there is no room for another slot. Redis has holders elsewhere.
func (w *settling) isFull() bool {
	counting := 0
	for k := range w.Slots {
		if w.Slots[k].Kind != Concurrency {
			counting++
		}
	}
	return counting >= MaxBands+maxKept
}

// begin adds a slot of band i, which continues slot k unless that is -1, and returns its place.
func (w *settling) begin(i, k int) int {
	var slot *Slot
	if k >= 0 {
		slot = &w.Slots[k]
	}
	v := View{Now: w.At}
	if w.bands[i].Kind != TokenBucket {
		v.step(w.bands, i, slot, w.At)
	}
	w.Slots = append(w.Slots, v.slot(w.bands, i, nil))
	return len(w.Slots) - 1
}

// find returns the slot of the take for a refund. If the window of its period is gone, the take
// counts in that of another one.
func (w *settling) find(i int) (k int, own bool) {
	k, own = w.findID(&w.bands[i], i)
	if b := w.bands[i]; k >= 0 && !own && b.Kind == Window && w.Slots[k].Kind == Window {
		b.Period = w.Slots[k].Steps.period()
		own = w.Slots[k].isOf(&b)
	}
	return k, own
}

// add changes slot k, of band i that regains by steps, and the windows of the band with other
// periods. It returns the most units that one moved by.
func (w *settling) add(i, k int, change func(*View, *Slot) int64) (units int64) {
	for j := range w.Slots {
		slot := &w.Slots[j]
		if j != k && (slot.ID != w.bands[i].ID || slot.Kind != Window || w.bands[i].Kind != Window) {
			continue
		}
		moved := slot.change(w.bands[i], w.At, func(v *View) int64 { return change(v, slot) })
		units = max(units, moved, -moved)
	}
	return units
}

// change brings the slot of a band that regains by steps to now, changes it, and returns by
// how many units. A window keeps its own numbers: under a shorter period the rest would be lost.
func (s *Slot) change(b Band, now int64, change func(*View) int64) int64 {
	if s.Kind == Window {
		b.Limit, b.Period = s.Limit, s.Steps.period()
	}
	bands, v := []Band{b}, View{Now: now}
	v.step(bands, 0, s, now)
	units := change(&v)
	v.add(&b, 0, units)
	if units != 0 {
		since := s.Since
		*s = v.slot(bands, 0, nil)
		s.Since = since
	}
	return units
}
