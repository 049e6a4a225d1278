package model

import (
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// demand is one demand that is decided.
type demand struct {
	*BucketFact
	set   *bucketSet
	views []*account
	// must and can are whether it fits, and grants how much of it, at least and at most.
	must, can bool
	// full is whether all slots are held, and debits whether an overdraft may write something.
	full   bool
	debits bool
	grants [2]int64
}

// counted reports whether it counts refused hits and is over: it is debited in any case.
func (b *BucketFact) counted() bool {
	return len(b.Exact) == 1 && b.Exact[0].CountsRefused && (b.Status == store.Rejected || b.Status == store.TooCostly)
}

// hits is how many refused hits a quota counts, at least and at most: hits beyond a bound are not counted.
func (d *demand) hits() (least, most int64) {
	a := d.views[0]
	if a == nil || a.open {
		return 0, d.Cost
	}
	from, to := a.clone().charge(whole(d.Cost), a.debt())
	return floor(from), floor(to)
}

// uncounted reports whether hits are not counted that should be.
func (d *demand) uncounted() bool {
	if !d.counted() {
		return false
	}
	least, most := d.hits()
	return d.Granted < least || d.Granted > most
}

// evaluate computes whether the demand fits.
func (d *demand) evaluate() {
	need := d.Min
	if need == 0 {
		need = d.Cost
	}
	d.grants = [2]int64{d.Cost, d.Cost}
	d.must, d.can = true, true
	longest := [2]int64{}
	for _, a := range d.views {
		if a == nil {
			d.must = false
			continue
		}
		least, most := a.left()
		if a.kind() == rules.Concurrency {
			if d.Holder != 0 && d.Cost > 0 {
				d.must, d.can = d.must && least.Sign() > 0, d.can && most.Sign() > 0
				d.full = d.full || most.Sign() <= 0
			}
			continue
		}
		if a.open {
			d.must, d.grants[0] = false, 0
			continue
		}
		if d.Overdraft {
			d.must, d.can = d.must && least.Sign() > 0, d.can && most.Sign() > 0
			continue
		}
		if need > a.Capacity {
			d.must, d.can = false, false
		}
		d.grants[0], d.grants[1] = min(d.grants[0], floor(least)), min(d.grants[1], floor(most))
		if a.kind() != rules.TokenBucket {
			d.must, d.can = d.must && floor(least) >= need, d.can && floor(most) >= need
			continue
		}
		longest[0], longest[1] = max(longest[0], a.wait(need, least)), max(longest[1], a.wait(need, most))
	}
	if d.Overdraft {
		d.grants = [2]int64{0, d.Cost}
		return
	}
	d.must = d.must && longest[0] <= d.MaxWait.Microseconds()
	d.can = d.can && longest[1] <= d.MaxWait.Microseconds()
	for i := range d.grants {
		if d.grants[i] < need {
			d.grants[i] = need // a demand for the least that it accepts, which may wait
		}
	}
}

// waits reports whether each band has the tokens that were granted after the wait that the
// store says.
func (d *demand) waits() bool {
	for i, a := range d.views {
		if a == nil || a.open || a.kind() != rules.TokenBucket {
			continue
		}
		least, most := a.left()
		if w := d.Bands[i].Wait.Microseconds(); w < a.wait(d.Granted, most) || w > a.wait(d.Granted, least) {
			return false
		}
	}
	return true
}

// takes takes what was granted from the views.
func (d *demand) takes(clock int64) {
	for i, a := range d.views {
		switch {
		case a == nil:
		case a.kind() != rules.Concurrency:
			wait := d.Bands[i].Wait.Microseconds()
			a.take(whole(d.Granted), wait)
		case d.Holder != 0:
			a.slots[d.Holder] = newSlot(clock, a.Hold)
		}
	}
}

// overdraw debits an overdraft. If all bands have the largest debt, nothing is written.
func (d *demand) overdraw() {
	parts := 0 // bands that may be debited although Granted is 0: others count whole tokens
	for _, a := range d.views {
		switch {
		case a == nil:
		case a.kind() != rules.Concurrency:
			if parts++; a.kind() == rules.TokenBucket {
				parts++
			}
			_, most := a.charge(whole(d.Cost), a.debt())
			d.debits = d.debits || most.Sign() > 0
		case d.Holder != 0 && d.Status == store.OK:
			a.slots[d.Holder] = newSlot(a.at, a.Hold)
			d.debits = true
		}
	}
	d.debits = d.debits && (parts > 1 || d.Granted > 0)
}
