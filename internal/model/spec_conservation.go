package model

import (
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// checkCharges checks that no bucket is charged more than the fallback has granted, and
// that no more is given back than was charged.
func (s *spec) checkCharges() {
	type place struct {
		gatewayBucket
		band uint32
	}
	granted, charged, returned := map[place]*big.Rat{}, map[place]*big.Rat{}, map[place]*big.Rat{}
	times := map[place]int{} // how often it was charged
	add := func(to map[place]*big.Rat, p place, tokens *big.Rat) {
		if to[p] == nil {
			to[p] = new(big.Rat)
		}
		to[p].Add(to[p], tokens)
	}
	for i := range s.facts {
		f := &s.facts[i]
		charge := f.Kind == StoreTook && f.Charge
		if f.Kind != FallbackTook && f.Kind != FallbackSettled && f.Kind != StoreSettled && !charge {
			continue
		}
		for j := range f.Buckets {
			b := &f.Buckets[j]
			for k := range b.Exact {
				p := place{gatewayBucket{f.Gateway, b.Bucket}, b.Exact[k].ID}
				switch {
				case f.Kind == FallbackTook && (b.Overdraft || b.counted()):
					add(granted, p, whole(b.Cost)) // bands may have been debited more than granted
				case f.Kind == FallbackTook:
					add(granted, p, whole(b.Granted))
				case f.Kind == FallbackSettled:
					for id, tokens := range s.settledIn(f, b, b.Exact[k].ID) { // bands owe different amounts
						add(granted, place{p.gatewayBucket, id}, tokens)
					}
				default:
					numbers := s.bandOf(b.Rule, &b.Exact[k])
					switch {
					case numbers == nil || numbers.kind() == rules.Concurrency:
					case charge:
						add(charged, p, tokensOf(&b.Exact[k], numbers, b.Granted))
						times[p]++
						s.checkCharged(f, b, numbers, granted[p], charged[p], times[p])
					case b.Exact[k].CountsRefused && b.Fallback && b.Cost == 0: // hits are counted above the limit too
						add(charged, p, tokensOf(&b.Exact[k], numbers, b.Charged))
						times[p]++
						s.checkCharged(f, b, numbers, granted[p], charged[p], times[p])
					case b.Fallback && b.Actual < b.Cost:
						add(returned, p, tokensOf(&b.Exact[k], numbers, b.Returned))
						s.checkReturned(f, b, numbers, charged[p], returned[p])
					}
				}
			}
		}
	}
}

// settledIn is what a settlement charges a band at most, and by their ids those that continue it
// in other versions of its rule: token buckets in proportion.
func (s *spec) settledIn(f *Fact, b *BucketFact, id uint32) map[uint32]*big.Rat {
	tokens := whole(max(0, b.Actual-b.Cost))
	settled := map[uint32]*big.Rat{id: tokens}
	band := s.versionOf(f.Version, b, id)
	for i := range s.bands[b.Rule] {
		other := &s.bands[b.Rule][i]
		if band == nil || other.exact.ID != id && s.versionOf(f.Version, b, other.exact.ID) != nil {
			continue
		}
		most := tokens
		if kindOf(band) == rules.TokenBucket && other.kind() == rules.TokenBucket {
			most = new(big.Rat).Mul(tokens, new(big.Rat).SetFrac64(other.Capacity, band.Capacity))
		}
		if settled[other.exact.ID] == nil || settled[other.exact.ID].Cmp(most) < 0 {
			settled[other.exact.ID] = most
		}
	}
	return settled
}

// versionOf is the band of a bucket that has an id in a version of the rules, with the least
// numbers that it has there, or nil.
func (s *spec) versionOf(version int, b *BucketFact, id uint32) (least *rules.Band) {
	r := s.ruleIn(version, b.Rule)
	if r == nil {
		return nil
	}
	for _, numbers := range [][]rules.Band{r.Bands, s.numbers(version, r, b.Bucket, false)} {
		for j := range numbers {
			if exact, err := numbers[j].Exact(j); err == nil && exact.ID == id && (least == nil || numbers[j].Capacity < least.Capacity) {
				least = &numbers[j]
			}
		}
	}
	return least
}

func (s *spec) checkReturned(f *Fact, b *BucketFact, numbers *band, charged, returned *big.Rat) {
	most := new(big.Rat)
	if charged != nil {
		most.Set(charged)
	}
	if returned.Cmp(most) > 0 {
		s.violate(LineCharge, f.At, "bucket %s was given back %s tokens in %s by gateway %d, which has charged it %s", b.Bucket, returned.FloatString(3), numbers.Name(), f.Gateway, most.FloatString(3))
	}
}

func (s *spec) checkCharged(f *Fact, b *BucketFact, numbers *band, granted, charged *big.Rat, times int) {
	most := new(big.Rat).Set(chargeRounding)
	if granted != nil {
		most.Add(most, granted)
	}
	most.Add(most, regained(&numbers.Band, time.Duration(times)*chargeTicks)) // for fast bands that is more than a token
	if charged.Cmp(most) > 0 {
		s.violate(LineCharge, f.At, "bucket %s was charged %s tokens in %s by gateway %d, which has granted %s", b.Bucket, charged.FloatString(3), numbers.Name(), f.Gateway, most.FloatString(3))
	}
}

// ledger is what should be used of a band in the end: at least, and at most.
type ledger struct {
	bucket string
	rule   string
	band   *band
	id     uint32
	least  *big.Rat
	most   *big.Rat
	since  time.Duration // when the first request of it began
}

// checkConservation checks that a band that regains little shows in the end what was
// admitted, at its actual cost, and charged.
func (s *spec) checkConservation() {
	if len(s.Versions) > 1 || len(s.Overrides) > 0 || s.any(StoreEmptied, StoreReset, FallbackReset, ClockStepped) {
		return
	}
	for _, l := range s.ledgers() {
		final := s.finalPeek(l)
		if final == nil {
			continue
		}
		var says *BandFact
		for i := range final.Buckets {
			if b := &final.Buckets[i]; b.Bucket == l.bucket {
				for k := range b.Exact {
					if b.Exact[k].ID == l.id {
						says = &b.Bands[k]
					}
				}
			}
		}
		if says == nil || !l.lasts(final) {
			continue
		}
		used := whole(l.band.Capacity - says.Remaining + says.Owed)
		// The buckets of the store and those of the fallbacks have refilled.
		refill := regained(&l.band.Band, final.At-l.since)
		l.least.Sub(l.least, refill.Mul(refill, new(big.Rat).Add(whole(1), s.shares(l.bucket))))
		l.least.Sub(l.least, whole(1)) // what is left is rounded down
		if cut := s.uncharged[l.bucket][l.id]; cut != nil {
			l.least.Sub(l.least, cut)
		}
		l.least = lesser(l.least, whole(l.band.Capacity)) // debt is bounded
		switch {
		case used.Cmp(l.least) < 0:
			s.violate(LineConservation, final.At, "bucket %s, %s: %s tokens are used in the end, at least %s were admitted and settled", l.bucket, l.band.Name(), used.FloatString(0), l.least.FloatString(3))
		case used.Cmp(l.most.Add(l.most, whole(1))) > 0:
			s.violate(LineConservation, final.At, "bucket %s, %s: %s tokens are used in the end, at most %s were admitted, settled and lost", l.bucket, l.band.Name(), used.FloatString(0), l.most.FloatString(3))
		}
	}
}

// shares is the sum of the shares of a bucket that fallbacks have applied, at least 1. It is
// more where gateways know of fewer than there are.
func (s *spec) shares(bucket string) *big.Rat {
	servers, fewest := map[int]int{}, map[int]int{}
	for i := range s.facts {
		switch f := &s.facts[i]; {
		case f.Kind == FleetSeen:
			servers[f.Gateway] = max(1, f.Gateways)
		case f.Kind == FallbackTook && slices.ContainsFunc(f.Buckets, func(b BucketFact) bool { return b.Bucket == bucket }):
			if n := fewest[f.Gateway]; n == 0 || servers[f.Gateway] < n {
				fewest[f.Gateway] = max(1, servers[f.Gateway])
			}
		}
	}
	sum := new(big.Rat)
	for _, n := range fewest {
		sum.Add(sum, big.NewRat(1, int64(n)))
	}
	return greater(sum, whole(1))
}

func (s *spec) any(kinds ...FactKind) bool {
	return slices.ContainsFunc(s.facts, func(f Fact) bool { return slices.Contains(kinds, f.Kind) })
}

// lasts reports whether the band keeps all that was taken until the end of the history.
func (l *ledger) lasts(final *Fact) bool {
	switch l.band.kind() {
	case rules.Quota:
		first, _ := periodAt(&l.band.Band, final.Clock-(final.At-l.since).Microseconds())
		last, _ := periodAt(&l.band.Band, final.Clock)
		return first == last
	case rules.SlidingWindow:
		return final.At-l.since < l.band.Refill
	case rules.TokenBucket:
		return regained(&l.band.Band, final.At-l.since).Cmp(whole(3)) < 0
	}
	return false
}

// finalPeek is the last look at a bucket, after everything.
func (s *spec) finalPeek(l *ledger) *Fact {
	for i := len(s.facts) - 1; i >= 0; i-- {
		f := &s.facts[i]
		if f.Kind == StorePeeked && f.At >= s.Ends-time.Second && slices.ContainsFunc(f.Buckets, func(b BucketFact) bool { return b.Bucket == l.bucket }) {
			return f
		}
	}
	return nil
}

// ledgers are the bands that were taken from, with what should be used of them.
func (s *spec) ledgers() []*ledger {
	var all []*ledger
	of := func(f *Fact, bucket, rule string, b *band, id uint32) *ledger {
		for _, l := range all {
			if l.bucket == bucket && l.id == id {
				l.since = min(l.since, f.Began)
				return l
			}
		}
		l := &ledger{bucket: bucket, rule: rule, band: b, id: id, least: new(big.Rat), most: new(big.Rat), since: f.Began}
		all = append(all, l)
		return l
	}
	each := func(f *Fact, bucket string, rule *rules.Rule, add func(l *ledger)) {
		for k := range rule.Bands {
			exact, err := rule.Bands[k].Exact(k)
			if b := s.bandOf(rule.ID, &exact); err == nil && b != nil && b.kind() != rules.Concurrency && !rule.Overdraft && !rule.CountRefused && rule.Until.IsZero() {
				add(of(f, bucket, rule.ID, b, exact.ID))
			}
		}
	}
	for i := range s.facts {
		f := &s.facts[i]
		switch {
		case f.Kind == Decided && f.Allowed && f.Err == nil:
			for j := range f.Rules {
				r := &f.Rules[j]
				if r.Granted == 0 {
					continue
				}
				each(f, r.Bucket, r.Rule, func(l *ledger) {
					least, most := s.costOf(f, r, l.band)
					l.least.Add(l.least, least)
					l.most.Add(l.most, most)
				})
			}
		case f.Kind == FallbackTook && s.refusedLater(f):
			// Its gateway was killed while the request waited, and may have charged it before. Or
			// its caller left, and what was promised to later requests does not come back.
			for j := range f.Buckets {
				b := &f.Buckets[j]
				if rule := s.ruleOf(b.Rule); rule != nil && b.Granted > 0 && (s.decided[f.Check] == nil || b.Wait > 0) {
					each(f, b.Bucket, rule, func(l *ledger) { l.most.Add(l.most, whole(b.Granted)) })
				}
			}
		case f.Kind == StoreTook && !f.Charge:
			// Tokens of slices may be lost, and so may those of calls without an answer.
			for j := range f.Buckets {
				b := &f.Buckets[j]
				lost := b.Granted - b.Min
				if !f.Answered || f.Leased || s.refusedLater(f) {
					lost = b.Granted
				} else if b.Min == 0 {
					lost = 0
				}
				if rule := s.ruleOf(b.Rule); rule != nil && lost > 0 {
					each(f, b.Bucket, rule, func(l *ledger) { l.most.Add(l.most, whole(lost)) })
				}
			}
		}
	}
	return all
}

func (s *spec) refusedLater(f *Fact) bool {
	d := s.decided[f.Check]
	return f.Check > 0 && (d == nil || !d.Allowed || d.Err != nil)
}

func (s *spec) ruleOf(id string) *rules.Rule {
	return s.ruleIn(0, id)
}

// costOf is what a request costs in a band: its estimate, or what it was settled at. What
// was lost on the way may be either.
func (s *spec) costOf(f *Fact, r *RuleFact, b *band) (least, most *big.Rat) {
	least, most = whole(r.Granted), whole(r.Granted)
	settled := s.settled[f.Check]
	if r.Source == store.FromFallback && s.mayBeLost(f) {
		least = new(big.Rat)
	}
	if settled == nil {
		for _, t := range s.settling[f.Check] { // its gateway was killed meanwhile
			for j := range t.Buckets {
				if b := &t.Buckets[j]; b.Bucket == r.Bucket && !b.Fallback {
					least, most = lesser(least, whole(b.Actual)), greater(most, whole(b.Actual))
				}
			}
		}
		return least, most
	}
	actual := settled.Actual
	if r.Rule.Cost == rules.MeasureTokens {
		if actual = settled.ActualTokens; settled.Actual == 0 && settled.ActualTokens == 0 {
			actual = 0 // it is withdrawn
		}
	}
	if s.settlementMayBeLost(settled) {
		return lesser(least, whole(actual)), greater(most, whole(actual))
	}
	if r.Source == store.FromFallback && s.mayBeLost(f) {
		return new(big.Rat), greater(most, whole(actual))
	}
	cost := whole(actual)
	if actual < r.Granted && r.Source == store.FromFallback && b.kind() == rules.SlidingWindow {
		return cost, most // what was charged at another moment stays
	}
	if actual < r.Granted && r.Source == store.FromFallback && settled.Gateway != f.Gateway {
		return cost, most // another gateway gives back what it has charged itself, at most
	}
	if actual < r.Granted { // what has refilled until the store settles it does not come back
		at := settled.At
		for _, t := range s.settling[f.Check] {
			at = max(at, t.At)
		}
		most = lesser(most, new(big.Rat).Add(cost, regained(&b.Band, at-f.Began)))
		return cost, greater(cost, most)
	}
	if r.Source == store.FromFallback && s.chargedAfter(f.Gateway, r.Bucket, settled.At) {
		return lesser(least, cost), cost // a charge is at most the share
	}
	return cost, cost
}

// chargedAfter reports whether a gateway has charged a bucket after a moment.
func (s *spec) chargedAfter(gateway int, bucket string, at time.Duration) bool {
	return slices.ContainsFunc(s.facts, func(f Fact) bool {
		return f.Kind == StoreTook && f.Charge && f.Gateway == gateway && f.At >= at &&
			slices.ContainsFunc(f.Buckets, func(b BucketFact) bool { return b.Bucket == bucket })
	})
}

// mayBeLost reports whether what the fallback granted for a request may not be charged:
// its gateway ends, or the call is lost.
func (s *spec) mayBeLost(f *Fact) bool {
	return slices.ContainsFunc(s.facts, func(t Fact) bool {
		return (t.Kind == Killed || t.Kind == Stopped) && t.Gateway == f.Gateway && t.At >= f.At
	}) || s.losesCalls(f.Gateway, f.Began, s.Ends)
}

// settlementMayBeLost reports whether a settlement may not have reached the store.
func (s *spec) settlementMayBeLost(f *Fact) bool { return s.mayBeLost(f) }

// losesCalls reports whether calls of a gateway may be lost in a time.
func (s *spec) losesCalls(gateway int, from, to time.Duration) bool {
	return slices.ContainsFunc(s.faults, func(f span) bool {
		loses := f.fault != NotSent && f.fault != Refused && f.fault != ShardAway && f.fault != "stall"
		return loses && (f.gateway == gateway || f.gateway == All) && f.from <= to && from <= f.to+callTimeout
	})
}
