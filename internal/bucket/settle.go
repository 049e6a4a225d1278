package bucket

import "math"

// refund is what may come back to band i, in units, when tokens of the cost
// that was due at the moment due are given back. It never creates tokens: what
// may have overflowed since, or was promised to later requests, is lost. The
// package comment has the reason. Under other numbers the overflow is unknown,
// so nothing comes back.
func (v *View) refund(b *Band, i int, cost, tokens, at, due int64) int64 {
	if v.Carried&(1<<i) != 0 {
		return 0
	}
	if b.Kind != TokenBucket {
		return v.giveBack(b, i, tokens, at, due)
	}
	most := cost*b.Unit - b.regain(b.ticks(due, v.Now+v.Hold))
	return max(0, min(tokens*b.Unit, most, v.Levels[i]))
}

// charge is what is added to a band for tokens used beyond what was booked,
// in units, as far as the largest debt allows.
func (b *Band) charge(level, tokens int64) int64 {
	room := max(0, b.Max-level)
	if tokens > math.MaxInt64/b.Unit {
		return room
	}
	return min(room, tokens*b.Unit)
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

// Settle corrects a booking to the cost that is known now: it gives the
// difference back or charges it. It reports the tokens by which the band that
// moved least was corrected, negative for a charge, in whole tokens rounded
// towards zero, and whether anything changed at all. It releases the slots of
// concurrency bands at any cost.
func (v *View) Settle(bands []Band, booked Booking, actual int64) (tokens int64, changed bool) {
	for i := range bands {
		if bands[i].Kind == Concurrency && v.release(i, booked.Holder) {
			changed = true
		}
	}
	difference := booked.Cost - actual
	if difference == 0 {
		return 0, changed
	}
	if difference > 0 && v.Now < booked.At {
		return 0, changed // the clock stepped back: how much has overflowed is unknown
	}
	tokens = difference
	for i := range bands {
		b := &bands[i]
		if b.Kind == Concurrency {
			continue
		}
		var units int64
		if difference > 0 {
			due := booked.At
			if len(booked.Due) > i {
				due = booked.Due[i]
			}
			units = v.refund(b, i, booked.Cost, difference, booked.At, due)
			tokens = min(tokens, units/b.Unit)
		} else {
			units = -b.charge(v.Levels[i], -difference)
			tokens = max(tokens, units/b.Unit)
		}
		v.add(b, i, -units)
		changed = changed || units != 0
	}
	return tokens, changed
}
