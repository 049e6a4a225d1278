package linearizability

import (
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// decide checks the answer to a take or a peek, and takes.
func (m *model) decide(s *state, in *input, out *store.Outcome) bool {
	admission := store.Admitted
	for i := range in.demands {
		d, r := &in.demands[i], &out.Results[i]
		if r.Now != s.now || !m.fits(s, in.sets[i], d, r, in.op != "peek") {
			return false
		}
		if r.Status != store.OK && !d.Shadow {
			admission = store.NotAdmitted
		}
	}
	if out.Admission != admission {
		return false
	}
	for i := range in.demands {
		d, r, number := &in.demands[i], &out.Results[i], in.sets[i]
		if !d.Overdraft && !m.granted(s, number, d, r, admission) || d.Overdraft && !m.overdrawn(s, number, d.Cost, r.Granted) {
			return false
		}
		for j, b := range m.limits[number] {
			l := &s.sets[number].bands[j]
			switch {
			case in.op == "peek":
			case d.Overdraft:
				l.charge(b, d.Cost, s.now, s.now)
			case r.Granted > 0:
				wait := r.Bands[j].Wait.Microseconds()
				l.take(b, r.Granted, s.now, wait, d.Holder)
				if b.kind == rules.TokenBucket {
					s.sets[number].promised = max(s.sets[number].promised, s.now+wait)
				}
			}
			if !l.shows(b, s.now, &r.Bands[j]) {
				return false
			}
		}
	}
	return true
}

// fits checks the status of a demand, and how long each band makes it wait. An overdraft charges unless it is a peek.
func (m *model) fits(s *state, number int, d *store.Demand, r *store.Result, charges bool) bool {
	var longest time.Duration
	patience, costly := d.MaxWait, false
	cost := max(d.Minimum(), r.Granted)
	for j, b := range m.limits[number] {
		costly = costly || !d.Overdraft && b.kind != rules.Concurrency && cost > b.capacity
		longest = max(longest, r.Bands[j].Wait)
		if b.kind != rules.TokenBucket && r.Bands[j].Wait > 0 {
			patience = 0
		}
	}
	if costly {
		return r.Status == store.TooCostly && longest == 0
	}
	for j, b := range m.limits[number] {
		l, wait := &s.sets[number].bands[j], r.Bands[j].Wait.Microseconds()
		if d.Overdraft && charges { // the next one waits for its debit too
			if r.Status == store.OK && !l.positiveAfter(b, s.now, 0) {
				return false
			}
			charged := s.clone()
			l = &charged.sets[number].bands[j]
			l.charge(b, d.Cost, s.now, s.now)
		}
		if d.Overdraft && !l.positiveAfter(b, s.now, wait) || !d.Overdraft && !l.fitsAfter(b, cost, s.now, wait) {
			return false
		}
	}
	fits := longest <= patience
	if d.Overdraft && charges {
		if fits = r.Status == store.OK; fits {
			longest = 0 // that of the next one
		}
	}
	return r.Wait == longest && (r.Status == store.OK) == fits && (r.Status == store.Rejected) == !fits
}

// granted checks how much a demand was granted: what all bands have, within its bounds.
func (m *model) granted(s *state, number int, d *store.Demand, r *store.Result, admission store.Admission) bool {
	if r.Status != store.OK || admission != store.Admitted {
		return r.Granted == 0
	}
	least, most := d.Cost, d.Cost
	for j, b := range m.limits[number] {
		low, high := s.sets[number].bands[j].left(b)
		if b.kind != rules.Concurrency || high == 0 {
			least, most = min(least, low), min(most, high)
		}
	}
	return max(least, d.Minimum()) <= r.Granted && r.Granted <= max(most, d.Minimum())
}

// overdrawn checks how much an overdraft debited: the least of all bands.
func (m *model) overdrawn(s *state, number int, cost, granted int64) bool {
	least, most := cost, cost
	for j, b := range m.limits[number] {
		if b.kind != rules.Concurrency {
			low, high := s.sets[number].bands[j].room(b, s.now)
			least, most = min(least, low), min(most, high)
		}
	}
	return least <= granted && granted <= most
}

// settle checks a settlement, or an extension, that happened between now and last.
func (m *model) settle(s *state, in *input, out *output, last int64) bool {
	held := true
	for i := range in.takes {
		t, number := &in.takes[i], in.sets[i]
		for j, b := range m.limits[number] {
			l := &s.sets[number].bands[j]
			if b.kind != rules.Concurrency {
				continue
			}
			k := slices.IndexFunc(l.holds, func(h hold) bool { return h.id == t.Holder })
			switch {
			case k < 0:
				held = false
			case in.op == "extend":
				l.holds[k].first, l.holds[k].last = s.now+b.period, last+b.period
			default:
				l.holds = slices.Delete(l.holds, k, k+1)
			}
		}
		if in.op == "settle" && !m.correct(s, number, t, in.actual[i], out.settled[i], last) {
			return false
		}
	}
	return in.op == "settle" || held == out.held
}

// correct gives back the difference to the actual cost, or charges it.
func (m *model) correct(s *state, number int, t *store.Taken, actual int64, settled store.Settlement, last int64) bool {
	set := &s.sets[number]
	debited := t.Cost
	if actual > t.Cost {
		debited = t.Asked // where there was room
	}
	back, more := max(0, debited-actual), max(0, actual-debited)
	if actual > t.Cost {
		back = 0
	}
	least, most := back+more, back+more
	for j, b := range m.limits[number] {
		if b.kind == rules.Concurrency {
			continue
		}
		l := &set.bands[j]
		due := t.At
		if t.Due != nil {
			due = t.Due[j]
		}
		var low, high int64
		switch {
		case back > 0:
			low, high = l.giveBack(b, s.now, last, refund{t.Cost, back, t.At, due, set.promised}, settled.Returned)
		case more > 0:
			low, high = l.room(b, last)
			low, high = min(low, more), min(high, more)
			l.charge(b, more, s.now, last)
		}
		least, most = min(least, low), min(most, high)
	}
	got := settled.Returned
	if more > 0 {
		got = settled.Charged
	}
	return least <= got && got <= most && settled.Returned*settled.Charged == 0
}
