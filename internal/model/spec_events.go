package model

import (
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// era is the time from the first gateway that uses some numbers to the last.
type era struct {
	from, to time.Duration
	band     *band // nil where there is no such band
	others   bool  // see refillsOthers
}

// eras are the eras of a band. An era that does not change it is a part of the last one.
func (s *spec) eras(m *meter) []era {
	tail := callTimeout + leaseTime
	for _, g := range s.Gateways {
		tail = max(tail, callTimeout+leaseTime+g.MaxWait)
	}
	type use struct {
		written int // the operation, or -1
		version int
		ended   bool // the override of the bucket has ended
	}
	now := map[int]use{}
	written := use{-1, 0, false}
	var order []use
	spans := map[use]*era{}
	note := func(u use, at time.Duration) {
		if spans[u] == nil {
			spans[u] = &era{from: at, band: s.numbersOf(m, u.version, u.ended), others: s.refillsOthers(m, u.version)}
			order = append(order, u)
		}
		spans[u].to = max(spans[u].to, at)
	}
	stepped := s.any(ClockStepped)
	expire := func(until time.Duration) {
		if len(s.Overrides) == 0 {
			return
		}
		for gateway, u := range now {
			end, ends := s.endsAfter(u.version, m.rule, m.bucket)
			if ends && !u.ended && (end <= until || stepped) {
				after := use{u.written, u.version, true}
				if stepped { // it may end at any time, and begin again
					note(after, spans[u].from)
					note(u, s.Ends)
				}
				note(u, end+s.lag(gateway)+tail)
				note(after, max(end, spans[u].from))
				now[gateway] = after
			}
		}
	}
	note(written, 0)
	for i := range s.facts {
		expire(s.facts[i].At)
		switch f := &s.facts[i]; f.Kind {
		case RulesWritten:
			written = use{f.Op, f.Version, false}
		case Started:
			now[f.Gateway] = written
			note(written, f.At)
		case RulesInEffect:
			note(now[f.Gateway], f.At+tail)
			now[f.Gateway] = use{f.Op, f.Version, false}
			note(now[f.Gateway], f.At)
		case Stopped, Killed:
			note(now[f.Gateway], f.At+tail)
			delete(now, f.Gateway)
		}
	}
	expire(s.Ends + time.Hour)
	for _, u := range now {
		note(u, s.Ends+time.Hour)
	}
	var eras []era
	for _, u := range order {
		e := spans[u]
		if n := len(eras); n > 0 && eras[n-1].band == e.band && eras[n-1].others == e.others {
			eras[n-1].to = max(eras[n-1].to, e.to)
			continue
		}
		eras = append(eras, *e)
	}
	return eras
}

// refillsOthers reports whether a version has token buckets and not the band of a meter. One of
// them takes over what a band with another label has used, and regains it.
func (s *spec) refillsOthers(m *meter, version int) bool {
	r := s.ruleIn(version, m.rule)
	return r != nil && s.numbersOf(m, version, false) == nil &&
		slices.ContainsFunc(r.Bands, func(b rules.Band) bool { return kindOf(&b) == rules.TokenBucket })
}

// numbersOf is the band of a meter in a version of the rules, before the end of an override or
// after it.
func (s *spec) numbersOf(m *meter, version int, ended bool) *band {
	r := s.ruleIn(version, m.rule)
	if r == nil {
		return nil
	}
	for j, b := range s.numbers(version, r, m.bucket, ended) {
		if exact, err := b.Exact(j); err == nil && exact.ID == m.id {
			return s.bandOf(m.rule, &exact)
		}
	}
	return nil
}

// allow notes what the events of the history add.
func (m *meter) allow(s *spec) {
	wait := time.Duration(0)
	for _, g := range s.Gateways {
		wait = max(wait, g.MaxWait)
	}
	tail := time.Duration(0)
	if m.leased.Sign() > 0 {
		tail = leaseTime
	}
	add := func(from, to time.Duration, tokens *big.Rat, why string) {
		m.allowances = append(m.allowances, allowance{from, to + tail, tokens, why})
	}
	for i, e := range m.eras {
		switch {
		case e.band == nil:
		case e.band.kind() == rules.TokenBucket:
			tokens := changeAdds(&e.band.Band)
			if i > 0 {
				tokens = m.withOverdraft(tokens)
			}
			add(e.from, e.to, tokens, "capacity")
		default:
			if to, raised := m.raised(i); raised {
				add(e.from, to, m.overdraft, "raise")
			}
		}
	}
	for _, o := range m.local {
		for _, b := range m.bandsIn(o.from, o.to) {
			add(o.from, o.to+wait, m.withOverdraft(outageAdds(&b.Band, o.servers, wait)), "outage")
			if o.uncharged { // it may be handed out again at any time from then on
				add(o.from, s.Ends, unchargedAdds(&b.Band, o.servers, wait, o.to-o.from), "uncharged")
			}
		}
	}
	for i := range s.facts {
		f := &s.facts[i]
		until := f.At
		if f.Kind == StoreReset {
			until = s.seenBy(f) // a band that is added before that is begun twice
		}
		bands := m.bandsIn(f.At, until)
		if len(bands) == 0 { // the band is not in use now, and what is lost is of before
			bands = m.bandsIn(0, f.At)
		}
		for _, b := range bands {
			b := m.highest(b, f.At)
			switch f.Kind {
			case StoreReset:
				if len(f.Buckets) > 0 && f.Buckets[0].Bucket != m.bucket || f.Rule != "" && f.Rule != m.rule {
					continue
				}
				seen := s.seenBy(f)
				add(f.At, max(seen, m.settledAfter(s, f, seen-f.At))+wait, m.withOverdraft(resetAdds(&b.Band, seen-f.At, wait)), "reset")
			case ResetDone:
				m.allowFailedReset(s, f, b, wait, add)
			case StoreEmptied:
				add(f.At, m.settledAfter(s, f, 0)+wait, m.withOverdraft(lossAdds(&b.Band, wait)), "loss")
			case ClockStepped:
				add(f.At, f.At+wait, stepAdds(&b.Band, f.Step, wait, m.overdraft), "step")
			case StoreSettled:
				m.allowAcross(s, f, add)
			}
		}
	}
}

// raised reports whether an era has a higher capacity than one before it, or than one that begins
// while servers still use it, and until when both are in use.
func (m *meter) raised(i int) (until time.Duration, raised bool) {
	until = m.eras[i].from
	for j, e := range m.eras {
		switch own := &m.eras[i]; {
		case e.band == nil || e.band.Capacity >= own.band.Capacity:
		case j < i:
			until, raised = max(until, e.to), true
		case e.from < own.to:
			until, raised = max(until, own.to), true
		}
	}
	return until, raised
}

// allowFailedReset allows what a reset adds that has not reached the store: the fallback of its
// gateway begins anew.
func (m *meter) allowFailedReset(s *spec, f *Fact, b *band, wait time.Duration, add func(time.Duration, time.Duration, *big.Rat, string)) {
	rule := s.ruleOf(m.rule)
	if f.Err == nil || f.Rule != "" && f.Rule != m.rule || f.Caller != "" && (rule == nil || bucketName(rule, f.Caller) != m.bucket) {
		return
	}
	for _, o := range m.local {
		if o.gateway == f.Gateway && o.from <= f.At && f.At <= o.to {
			add(f.At, o.to+wait, m.withOverdraft(outageAdds(&b.Band, o.servers, wait)), "failed reset")
		}
	}
}

// withOverdraft adds what a bucket that begins anew may be overdrawn by.
func (m *meter) withOverdraft(tokens *big.Rat) *big.Rat { return new(big.Rat).Add(tokens, m.overdraft) }

// allowAcross allows what was given back across a clock that stepped back.
func (m *meter) allowAcross(s *spec, f *Fact, add func(time.Duration, time.Duration, *big.Rat, string)) {
	for j := range f.Buckets {
		b := &f.Buckets[j]
		if b.Bucket != m.bucket || b.Actual >= b.Cost {
			continue
		}
		for i := range s.facts {
			if step := &s.facts[i]; step.Kind == ClockStepped && step.At <= f.At {
				add(f.At, f.At, whole(b.Cost-b.Actual), "settled across a step")
				return
			}
		}
	}
}

// settledAfter is when the last take of before a loss or a reset, or of until that was seen, was
// settled: what it gives back then is in a bucket that never had it.
func (m *meter) settledAfter(s *spec, loss *Fact, seen time.Duration) time.Duration {
	last := loss.At
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != StoreSettled || f.At < loss.At {
			continue
		}
		for j := range f.Buckets {
			if b := &f.Buckets[j]; b.Bucket == m.bucket && b.TakenAt <= loss.Clock+seen.Microseconds() && b.Actual < b.Cost {
				last = max(last, f.At)
			}
		}
	}
	return last
}

// bandsIn are the numbers in use in a time.
func (m *meter) bandsIn(from, to time.Duration) (all []*band) {
	for _, e := range m.eras {
		if e.band != nil && e.from <= to && from <= e.to && !slices.Contains(all, e.band) {
			all = append(all, e.band)
		}
	}
	return all
}

// highest is the band that had the highest capacity of a kind until a time: so much may have been
// used. What a token bucket has used changes with its capacity.
func (m *meter) highest(b *band, until time.Duration) *band {
	for _, other := range m.bandsIn(0, until) {
		if b.kind() != rules.TokenBucket && other.kind() == b.kind() && other.Capacity > b.Capacity {
			b = other
		}
	}
	return b
}

// seenBy is when the last gateway should have seen a reset: within 250 ms from when it
// has the store.
func (s *spec) seenBy(f *Fact) time.Duration {
	if len(f.Buckets) > 0 {
		return f.At
	}
	seen := f.At + resetSeen
	for changed := true; changed; {
		changed = false
		for _, o := range s.faults {
			if o.from <= seen && o.to+recovery+resetSeen > seen {
				seen, changed = o.to+recovery+resetSeen, true
			}
		}
	}
	return seen
}

// regained returns what has refilled until a moment: by the fastest numbers of the time, or where
// requests wait by all of them, and by the fallbacks of gateways while others had the store.
func (m *meter) regained(s *spec) func(time.Duration) *big.Rat {
	var cuts []time.Duration
	for _, e := range m.eras {
		cuts = append(cuts, e.from, e.to)
	}
	for _, o := range m.local {
		cuts = append(cuts, o.from, o.to)
	}
	cuts = append(cuts, 0)
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	alone := make([]bool, len(cuts)) // no gateway has used the store
	for k := range cuts {
		to := s.Ends
		if k+1 < len(cuts) {
			to = cuts[k+1]
		}
		alone[k] = !s.storeUsed(m.bucket, cuts[k], to)
	}
	rate := func(k int, t time.Duration) *big.Rat {
		refill, shares := new(big.Rat), new(big.Rat)
		for _, b := range m.bandsIn(cuts[k], cuts[k]) {
			if one := regained(&b.Band, t); m.waits {
				refill.Add(refill, one)
			} else {
				refill = greater(refill, one)
			}
		}
		for _, o := range m.local {
			if o.from <= cuts[k] && cuts[k] < o.to {
				shares.Add(shares, big.NewRat(1, int64(o.servers)))
			}
		}
		if one := whole(1); alone[k] && shares.Cmp(one) <= 0 {
			shares.SetInt64(0)
		} else if alone[k] {
			shares.Sub(shares, one)
		}
		return shares.Mul(shares.Add(shares, whole(1)), refill)
	}
	return func(at time.Duration) *big.Rat {
		sum := new(big.Rat)
		for k, from := range cuts {
			to := at
			if k+1 < len(cuts) {
				to = min(to, cuts[k+1])
			}
			if to > from {
				sum.Add(sum, rate(k, to-from))
			}
		}
		return sum
	}
}

// storeUsed reports whether tokens of a bucket were taken from the store in a time.
func (s *spec) storeUsed(bucket string, from, to time.Duration) bool {
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != StoreTook || f.Charge || f.At < from || f.At > to {
			continue
		}
		for j := range f.Buckets {
			if f.Buckets[j].Bucket == bucket && f.Buckets[j].Granted > 0 {
				return true
			}
		}
	}
	return false
}
