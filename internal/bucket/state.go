package bucket

import "slices"

// Slot is the stored state of one band.
type Slot struct {
	// ID is the band's.
	ID uint32
	// Used is what is used, in units of the band that wrote it.
	Used int64
	// Limit is the limit of the band that wrote it: Used ÷ Limit means the
	// same under any other numbers.
	Limit int64
	// Kind is the kind of the band that wrote it. Kinds other than token buckets
	// have Steps.
	Kind  Kind
	Steps *Steps
}

// State is the stored state of one bucket set: all bands of one rule for one
// key. The zero State is a full bucket set.
type State struct {
	// At is when it was written, in microseconds of the store's clock.
	At int64
	// Hold is how long after At the last take that waited is due.
	Hold int64
	// Slots are the bands in the order of the demand that wrote them.
	Slots []Slot
}

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
	// Carried has a bit for each band whose level was written under other
	// numbers and carried over.
	Carried uint16
}

// View brings the state to now. Bands are matched by id; a band that was not
// stored takes over the slot at its position if that belongs to no other band
// (its label was changed), and is full otherwise.
func (s *State) View(bands []Band, now int64, v *View) {
	v.Now, v.Hold, v.Carried = now, s.Hold, 0
	if elapsed := now - s.At; elapsed > 0 {
		v.Hold = max(0, s.Hold-elapsed)
	}
	for i := range bands {
		slot, ok := s.slot(bands, i)
		if (slot.Kind == Concurrency) != (bands[i].Kind == Concurrency) {
			slot, ok = Slot{}, false // requests under way and tokens do not compare
		}
		if ok && !bands[i].sameNumbers(slot) {
			v.Carried |= 1 << i
		}
		switch {
		case bands[i].Kind != TokenBucket:
			v.step(bands, i, slot, ok)
		case ok:
			v.Levels[i] = bands[i].Level(slot, s.At, now)
		default:
			v.Levels[i] = 0
		}
	}
}

func (s *State) slot(bands []Band, i int) (Slot, bool) {
	// The bands have almost always the same positions as at the last write.
	if i < len(s.Slots) && s.Slots[i].ID == bands[i].ID {
		return s.Slots[i], true
	}
	for _, slot := range s.Slots {
		if slot.ID == bands[i].ID {
			return slot, true
		}
	}
	if i >= len(s.Slots) {
		return Slot{}, false
	}
	for j := range bands {
		if bands[j].ID == s.Slots[i].ID {
			return Slot{}, false
		}
	}
	return s.Slots[i], true
}

// Store writes the view back. It reuses the state's memory.
func (s *State) Store(bands []Band, v *View) {
	s.At, s.Hold = v.Now, v.Hold
	if cap(s.Slots) < len(bands) {
		s.Slots = make([]Slot, len(bands))
	}
	s.Slots = s.Slots[:len(bands)]
	for i := range bands {
		slot := Slot{ID: bands[i].ID, Used: v.Levels[i], Limit: bands[i].Limit, Kind: bands[i].Kind}
		if slot.Kind != TokenBucket {
			steps := v.Steps[i]
			slot.Steps = &steps
		}
		s.Slots[i] = slot
	}
}

// Adopt follows a clock that has stepped back behind the state: no time has
// passed, and from here on it counts by the new clock. It reports whether it
// changed anything.
func (s *State) Adopt(now int64) bool {
	if now >= s.At {
		return false
	}
	s.At = now
	for _, slot := range s.Slots {
		if slot.Kind == Window {
			slot.Steps.Newest = min(slot.Steps.Newest, now/slot.Steps.Length+1)
		}
	}
	return true
}

// HasSteps reports whether a band is no token bucket.
func (s *State) HasSteps() bool {
	return slices.ContainsFunc(s.Slots, func(slot Slot) bool { return slot.Kind != TokenBucket })
}

// Grant is how many whole tokens every band has now, but at least least and at
// most cost.
func (v *View) Grant(bands []Band, least, cost int64) int64 {
	grant := cost
	for i := range bands {
		if left := bands[i].Remaining(v.Levels[i]); bands[i].Kind != Concurrency || left == 0 {
			grant = min(grant, left)
		}
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
	if b := &bands[i]; b.Kind != TokenBucket {
		return v.fits(b, i, b.Limit-v.price(b, cost))
	}
	return bands[i].Wait(v.Levels[i], cost, v.Now)
}

// PositiveAfter is how long until band i has more than 0 left; 0 if it has now.
func (v *View) PositiveAfter(bands []Band, i int) int64 {
	if b := &bands[i]; b.Kind != TokenBucket {
		return v.fits(b, i, b.Limit-1)
	}
	return bands[i].PositiveAfter(v.Levels[i], v.Now)
}

// Take books cost in every band, each at the tick it is due in that band. The
// cost must be affordable, and the caller must have accepted the wait.
func (v *View) Take(bands []Band, cost int64) {
	for i := range bands {
		if b := &bands[i]; b.Kind != TokenBucket {
			if b.Kind == Concurrency {
				v.hold(b, i)
			} else {
				v.add(b, i, cost*b.Unit)
			}
			continue
		}
		wait := bands[i].Wait(v.Levels[i], cost, v.Now)
		v.Levels[i] = bands[i].book(v.Levels[i], cost, wait, v.Now)
		v.Hold = max(v.Hold, wait)
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

// FullAfter is how long until every band is full, in microseconds: the moment
// from which keeping the bucket set and forgetting it are the same.
func (v *View) FullAfter(bands []Band) int64 {
	var full int64
	for i := range bands {
		full = max(full, v.FullAfterOf(bands, i))
	}
	return full
}

// FullAfterOf is how long until band i is full, in microseconds.
func (v *View) FullAfterOf(bands []Band, i int) int64 {
	if b := &bands[i]; b.Kind != TokenBucket {
		return v.emptyAfter(b, i)
	}
	return bands[i].FullAfter(v.Levels[i], v.Now)
}
