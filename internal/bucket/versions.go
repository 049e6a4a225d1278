package bucket

import "slices"

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
		if i == len(s.Slots) {
			s.Slots = slices.Grow(s.Slots, 1)[:i+1]
		} else if bands[i].Kind == TokenBucket { // the rest is as it was
			s.Slots[i].Used, s.Slots[i].Shared = v.Levels[i], false
			continue
		}
		s.Slots[i] = v.slot(bands, i, s.Slots[i].Steps)
	}
	return false
}

// keep returns the slots of the bands, and behind them those that are kept.
func (s *State) keep(bands []Band, v *View) []Slot {
	var before View
	s.View(bands, v.Now, &before)
	slots := make([]Slot, len(bands), len(bands)+len(s.Slots))
	asked := make([]bool, len(s.Slots))
	split := map[uint32]int64{} // since when two versions of a band count apart, by id
	for i := range bands {
		slots[i] = v.slot(bands, i, nil)
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
