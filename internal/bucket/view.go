package bucket

// View is a bucket set brought to one moment for one list of bands.
type View struct {
	// Now is the moment, in microseconds of the store's clock.
	Now int64
	// Hold is how long from Now until the last take that waited is due.
	Hold int64
	// Levels are the used units per band.
	Levels [MaxBands]int64
	// Steps has the rest of the state of bands that are no token buckets. It is empty if there
	// are none, and may then have room for them.
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

// slot is what is stored of band i. It may use the memory of former steps.
func (v *View) slot(bands []Band, i int, steps *Steps) Slot {
	b := &bands[i]
	slot := Slot{ID: b.ID, Used: v.Levels[i], Limit: b.Limit, Kind: b.Kind}
	if b.Kind == TokenBucket {
		slot.Rate, slot.Tick = b.Rate, b.TickPower()
		return slot
	}
	if steps == nil {
		steps = new(Steps)
	}
	if *steps = v.Steps[i]; b.Kind == Quota {
		slot.Limit = steps.Largest
	}
	slot.Steps = steps
	return slot
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

// FullAfterOf is how long until band i is full, in microseconds. Requests that hold slots are
// assumed to hold them until they lose them.
func (v *View) FullAfterOf(bands []Band, i int) int64 {
	if b := &bands[i]; b.Kind != TokenBucket {
		return v.emptyAfter(b, i)
	}
	return bands[i].FullAfter(v.Levels[i], v.Now)
}

// ForgottenAfter is how long until nothing has to be remembered of band i, at least, in
// microseconds, given what FullAfterOf returns. Where a quota is in debt, a changed rule may give the
// next period any length of its kind.
func (v *View) ForgottenAfter(bands []Band, i int, fullAfter int64) int64 {
	if v.inDebt(&bands[i], i) {
		return v.Steps[i].End - v.Now + v.Steps[i].Longest
	}
	return fullAfter
}

// MoreAfterOf is how long until band i has one whole token more than those that remain now if none is
// taken, in microseconds; 0 if it is full, and for concurrent requests, which end at any time.
func (v *View) MoreAfterOf(bands []Band, i int, remaining int64) int64 {
	b := &bands[i]
	if b.Kind == Concurrency || v.Levels[i] <= 0 {
		return 0
	}
	return v.WaitOf(bands, i, remaining+1)
}
