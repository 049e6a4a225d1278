package model

import (
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// admission is tokens of a band that a gateway has handed out, less what came back.
type admission struct {
	at     time.Duration // when they are due
	clock  int64
	tokens *big.Rat
	band   *band
	check  int
	period int64 // of a quota: when it began
}

// allowance is what an event adds to every interval that it is in.
type allowance struct {
	from, to time.Duration
	tokens   *big.Rat
	why      string
}

// meter is a band of a bucket set, with what was admitted and what is allowed.
type meter struct {
	bucket     string
	rule       string
	id         uint32
	admissions []admission
	allowances []allowance
	eras       []era
	// local are the times in which gateways use their fallback for it.
	local []outage
	// leased and overdraft are what is allowed at any time.
	leased, overdraft *big.Rat
	// waits is whether requests wait for it.
	waits bool
}

// checkBounds checks that no interval admits more than its bound.
func (s *spec) checkBounds() {
	meters := s.meters()
	for _, m := range meters {
		m.eras = s.eras(m)
		m.local = s.outages(m.bucket)
		m.allow(s)
		byKind := map[rules.BandKind]bool{}
		for _, a := range m.admissions {
			byKind[a.band.kind()] = true
		}
		if byKind[rules.TokenBucket] {
			s.checkTokens(m)
		}
		if byKind[rules.Quota] || byKind[rules.SlidingWindow] {
			s.checkCounts(m)
		}
	}
}

// meters are the bands from which something was admitted, in a fixed order.
func (s *spec) meters() []*meter {
	var order []*meter
	all := map[string]map[uint32]*meter{}
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != Decided || !f.Allowed || f.Err != nil {
			continue
		}
		for j := range f.Rules {
			r := &f.Rules[j]
			if r.Granted == 0 || r.Status != store.OK { // a shadow overdraft takes in any case
				continue
			}
			if all[r.Bucket] == nil {
				all[r.Bucket] = map[uint32]*meter{}
			}
			for k := range r.Rule.Bands {
				a, id, ok := s.admission(f, r, k)
				if !ok {
					continue
				}
				m := all[r.Bucket][id]
				if m == nil {
					m = &meter{bucket: r.Bucket, rule: r.Rule.ID, id: id, leased: new(big.Rat), overdraft: new(big.Rat)}
					all[r.Bucket][id] = m
					order = append(order, m)
				}
				m.admissions = append(m.admissions, a)
				if r.Rule.Consistency != rules.ConsistencyStrict && slices.ContainsFunc(s.Gateways, func(g Gateway) bool { return g.Leases }) {
					m.leased = greater(m.leased, leaseAdds(&a.band.Band))
				}
				m.waits = m.waits || r.Rule.OnLimitExceed == rules.WaitForRefill
				if r.Rule.Overdraft {
					m.overdraft = greater(m.overdraft, overdraftAdds(r.Cost))
				}
			}
		}
	}
	for _, m := range order {
		slices.SortStableFunc(m.admissions, func(a, b admission) int { return int(a.at - b.at) })
	}
	return order
}

func greater(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// admission is what a decision took from a band.
func (s *spec) admission(f *Fact, r *RuleFact, k int) (a admission, id uint32, ok bool) {
	exact, err := r.Rule.Bands[k].Exact(k)
	if err != nil || kindOf(&r.Rule.Bands[k]) == rules.Concurrency {
		return a, 0, false
	}
	b := s.bandOf(r.Rule.ID, &exact)
	if b == nil {
		return a, 0, false
	}
	a = admission{at: f.At - f.Held, clock: f.Clock, tokens: whole(r.Granted), band: b, check: f.Check}
	if r.Rule.Overdraft {
		a.tokens = whole(r.Cost)
	}
	took, wait := s.takes[f.Check], time.Duration(0)
	if r.Source == store.FromFallback {
		took = s.fallback[f.Check]
	}
	if took != nil && r.Source != store.FromLease {
		for i := range took.Buckets {
			if t := &took.Buckets[i]; t.Bucket == r.Bucket && k < len(t.Bands) {
				if !r.Rule.Overdraft { // it is debited at once, and the wait is that of the next one
					wait = t.Bands[k].Wait
				}
				a.at, a.clock = took.At+wait, took.Clock
			}
		}
	}
	if b.kind() == rules.Quota {
		a.period, _ = periodAt(&b.Band, a.clock)
	}
	a.tokens.Sub(a.tokens, s.cameBack(f, r, b, wait))
	return a, exact.ID, true
}

// cameBack is what may have come back of a take that was due after a wait, at most.
func (s *spec) cameBack(f *Fact, r *RuleFact, b *band, wait time.Duration) *big.Rat {
	most := new(big.Rat)
	for _, t := range s.settling[f.Check] {
		for j := range t.Buckets {
			bucket, asked := &t.Buckets[j], t.Buckets[j].Cost
			if r.Rule.Overdraft {
				asked = r.Cost // what the largest debt did not allow was not debited, and need not come back
			}
			if bucket.Bucket != r.Bucket || bucket.Actual >= asked {
				continue
			}
			comes := whole(asked)
			if t.Kind == StoreSettled {
				comes.Sub(comes, regained(&b.Band, time.Duration(t.Clock-bucket.TakenAt)*time.Microsecond-wait))
			}
			if given := whole(asked - bucket.Actual); comes.Cmp(given) > 0 {
				comes = given
			}
			most = greater(most, comes)
		}
	}
	return most
}

// checkTokens checks a token bucket: with A(t) admitted until t, and I(t) regained, no
// A(t) - A(s) is above C + I(t) - I(s) and the allowances that are in the interval. The
// capacity is one: that of each era of its numbers.
func (s *spec) checkTokens(m *meter) {
	regained := m.regained(s)
	sum := new(big.Rat)
	var lowest *big.Rat
	for i := range m.admissions {
		a := &m.admissions[i]
		if a.band.kind() != rules.TokenBucket {
			continue
		}
		at := regained(a.at)
		before := new(big.Rat).Sub(sum, at)
		after := new(big.Rat).Add(before, a.tokens)
		sum.Add(sum, a.tokens)
		for _, e := range m.allowances {
			if e.to < a.at {
				before.Sub(before, e.tokens)
			}
			if e.from <= a.at {
				after.Sub(after, e.tokens)
			}
		}
		if lowest == nil || before.Cmp(lowest) < 0 {
			lowest = before
		}
		over := new(big.Rat).Sub(after, lowest)
		over.Sub(over, m.leased)
		over.Sub(over, m.overdraft)
		over.Sub(over, a.band.rate) // the clock of the store has ticks
		if over.Sign() > 0 {
			s.violate(LineBound, a.at, "bucket %s, %s: %s tokens too many in an interval that ends now; %s", m.bucket, a.band.Name(), over.FloatString(3), m.reasons(a.at))
			return
		}
	}
}

// checkCounts checks quotas and windows: each admission finds at most the capacity used
// in its period, and the allowances of that time.
func (s *spec) checkCounts(m *meter) {
	ends, stepped := s.periodEnds(m), s.any(ClockStepped)
	for i := range m.admissions {
		a := &m.admissions[i]
		if a.band.kind() == rules.TokenBucket || a.tokens.Sign() <= 0 {
			continue
		}
		sum, bound, largest := new(big.Rat), windowBound(&a.band.Band), windowBound(&a.band.Band)
		from := a.at
		for j := range m.admissions[:i+1] {
			b := &m.admissions[j]
			same := m.counts(j, i)
			if a.band.kind() == rules.Quota {
				// What was taken in another kind of period ended with that.
				same = b.period == a.period && b.band.Period == a.band.Period && (!stepped || !s.ended(b, a.at))
				if end, is := ends[b.check]; is && end <= a.clock {
					same = false
				}
			}
			if same && b.band.kind() == a.band.kind() {
				from = min(from, b.at)
				sum.Add(sum, b.tokens)
				largest = greater(largest, windowBound(&b.band.Band))
			}
		}
		allowed := new(big.Rat).Set(m.overdraft)
		for _, e := range m.allowances {
			if e.from <= a.at && e.to >= from {
				allowed.Add(allowed, e.tokens)
				bound = largest // before a reset or a loss, other numbers may have applied
			}
		}
		bound = new(big.Rat).Add(bound, allowed)
		if slices.ContainsFunc(m.eras, func(e era) bool { return e.others && e.from <= a.at && e.to >= from }) {
			continue // servers with either version take over what the other counts
		}
		if sum.Cmp(bound) > 0 {
			s.violate(LineBound, a.at, "bucket %s, %s: %s tokens in a period, at most %s; %s", m.bucket, a.band.Name(), sum.FloatString(3), bound.FloatString(3), m.reasons(a.at))
			return
		}
	}
}

// periodEnds is when the periods end, by the store's clock, that requests took from a quota in.
// Another period begins at the end of the one that was begun.
func (s *spec) periodEnds(m *meter) map[int]int64 {
	ends, now := map[int]int64{}, map[int]int64{}
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind == StoreEmptied {
			clear(now)
		}
		if f.Kind != StoreTook {
			continue
		}
		for j := range f.Buckets {
			b := &f.Buckets[j]
			for k := range b.Exact {
				numbers := s.bandOf(b.Rule, &b.Exact[k])
				if b.Bucket != m.bucket || b.Granted == 0 || b.Exact[k].ID != m.id || numbers == nil || numbers.kind() != rules.Quota {
					continue
				}
				if f.Clock >= now[b.Generation] {
					_, now[b.Generation] = periodAt(&numbers.Band, f.Clock)
				}
				ends[f.Check] = now[b.Generation]
			}
		}
	}
	return ends
}

// ended reports whether the store's clock passed the end of the period of an admission until
// a moment: if it stepped back then, the next period has begun anyway.
func (s *spec) ended(a *admission, until time.Duration) bool {
	_, end := periodAt(&a.band.Band, a.clock)
	return slices.ContainsFunc(s.facts, func(f Fact) bool {
		return f.Kind == ClockStepped && a.at <= f.At && f.At <= until && f.Clock-f.Step.Microseconds() >= end
	})
}

// counts reports whether an admission counts in the window of a later one. Two versions with
// different periods count by themselves. A version begins with what is in the period of the
// last admission: under a longer one the rest is not known.
func (m *meter) counts(earlier, later int) bool {
	at, last := m.admissions[earlier].at, m.admissions[earlier].band
	began := slices.ContainsFunc(m.admissions[:earlier+1], func(a admission) bool { return a.band == m.admissions[later].band })
	if began && m.versions() <= 2 {
		return at > m.admissions[later].at-m.admissions[later].band.Refill
	}
	for i := earlier + 1; i <= later; i++ {
		a := &m.admissions[i]
		if a.band.kind() != last.kind() {
			continue
		}
		if at <= a.at-min(a.band.Refill, last.Refill) {
			return false
		}
		last = a.band
	}
	return true
}

// versions is how many versions of the band there are, with the one without it.
func (m *meter) versions() int {
	all := map[*band]bool{}
	for _, e := range m.eras {
		all[e.band] = true
	}
	return len(all)
}

// reasons are the allowances until a moment, in words.
func (m *meter) reasons(until time.Duration) string {
	text := "allowed for:"
	for _, e := range m.allowances {
		if e.from <= until {
			text += " " + e.why + " " + e.tokens.FloatString(2) + ","
		}
	}
	return text
}
