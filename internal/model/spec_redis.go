package model

import (
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// The lines about a history with servers of Redis. What a call of the script does is not compared: that is for the tests of
// store/redisstore. These lines are about what is around the calls: nothing stays taken or held for a request that was
// rejected, left or settled, unless a call that may have run was lost, and no request is decided without the store while
// it answers.

func (s *spec) checkRedis() {
	s.checkHeld()
	s.checkTaken()
	s.checkAnswered()
}

// checkHeld checks that in the end no request holds a slot that it has not, or does not need any more.
func (s *spec) checkHeld() {
	lost := s.lostHolders()
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != ServerHas {
			continue
		}
		held, first, reason := 0, 0, ""
		for _, h := range f.Holds {
			d, settled := s.decided[h.Check], s.settled[h.Check]
			var why string
			switch {
			case d == nil || lost[h.ID]:
				continue
			case d.Err != nil:
				why = "left"
			case !d.Allowed:
				why = "was rejected"
			case settled != nil:
				why = "was settled"
			case !s.storeGranted(d, f.Buckets[0].Bucket):
				why = "was not decided by the store"
			default:
				continue // it is never settled
			}
			if held++; held == 1 {
				first, reason = h.Check, why
			}
		}
		if held > 0 {
			s.violate(LineSlots, f.At, "bucket %s: %d of %d slots in use are held in the end by requests that do not need them, first #%d, which %s, and no call about it was lost",
				f.Buckets[0].Bucket, held, len(f.Holds), first, reason)
		}
	}
}

// storeGranted reports whether the store has granted a request what it took of a bucket.
func (s *spec) storeGranted(d *Fact, bucket string) bool {
	return slices.ContainsFunc(d.Rules, func(r RuleFact) bool { return r.Bucket == bucket && r.Granted > 0 && r.Source == store.FromStore })
}

// lostHolders are those that may keep a slot: the answer to their take was lost, or their settlement was sent and
// not answered. Such a settlement may have run, so it is counted as lost and not sent again.
func (s *spec) lostHolders() map[store.HolderID]bool {
	lost := map[store.HolderID]bool{}
	for i := range s.facts {
		c := s.facts[i].Call
		if c == nil {
			continue
		}
		for k := range c.Entries {
			if e := &c.Entries[k]; !e.Settles && c.Ran && !c.Answered || e.Settles && !e.Renews && (c.Lost || !c.Answered) {
				lost[e.Holder] = true
			}
		}
	}
	return lost
}

// checkTaken checks that in the end the servers show what was admitted, at its actual cost.
func (s *spec) checkTaken() {
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != ServerHas {
			continue
		}
		b := &f.Buckets[0]
		for k := range b.Exact {
			numbers := s.bandOf(b.Rule, &b.Exact[k])
			if numbers == nil {
				numbers = s.bandNamed(b.Bucket, &b.Exact[k])
			}
			if numbers == nil || numbers.kind() == rules.Concurrency {
				continue
			}
			s.compareTaken(f, b.Bucket, numbers, whole(b.Bands[k].Limit-b.Bands[k].Remaining))
		}
	}
}

// bandNamed is the band of a bucket with an id.
func (s *spec) bandNamed(bucket string, e *store.ExactBand) *band {
	for rule, bands := range s.bands {
		if len(bucket) <= len(rule) || bucket[:len(rule)+1] != rule+"@" {
			continue
		}
		for i := range bands {
			if bands[i].exact.ID == e.ID {
				return &bands[i]
			}
		}
	}
	return nil
}

func (s *spec) compareTaken(final *Fact, bucket string, b *band, used *big.Rat) {
	least, most, since := new(big.Rat), new(big.Rat), final.At
	for i := range s.facts {
		f := &s.facts[i]
		switch {
		case f.Kind == FallbackTook || f.Kind == FallbackSettled:
			// It is charged later, at most what the fallback had granted.
			for j := range f.Buckets {
				if f.Buckets[j].Bucket == bucket {
					most.Add(most, whole(max(f.Buckets[j].Granted, f.Buckets[j].Actual, f.Buckets[j].Cost)))
					least.Sub(least, whole(max(0, f.Buckets[j].Cost-f.Buckets[j].Actual)))
				}
			}
		case f.Kind == ServerCalled:
			for k := range f.Call.Entries {
				e := &f.Call.Entries[k]
				if !e.Values || e.Key != final.Rule {
					continue
				}
				switch {
				case !e.Settles && f.Call.Ran && !f.Call.Answered:
					most.Add(most, whole(e.Granted))
				case e.Settles && (f.Call.Lost || !f.Call.Ran && !f.Call.Answered): // such as a redirect that came too late
					most.Add(most, whole(max(0, e.Cost-e.Actual)))
					least.Sub(least, whole(max(0, e.Actual-e.Cost)))
				case e.Settles && !e.Renews && f.Call.Ran && e.Actual < e.Cost:
					// What has come back since the take is not given back again, also to those that were rejected.
					most.Add(most, lesser(whole(e.Cost-e.Actual), regained(&b.Band, e.Age)))
				}
			}
		case f.Kind == Decided && f.Allowed && f.Err == nil:
			for j := range f.Rules {
				if r := &f.Rules[j]; r.Bucket == bucket && r.Granted > 0 && r.Source == store.FromStore {
					cost := r.Granted
					if settled := s.settled[f.Check]; settled != nil {
						cost = settled.Actual
					} else if s.killed(f.Gateway) {
						least.Sub(least, whole(cost))
					}
					since = min(since, f.Began)
					least.Add(least, whole(cost))
					most.Add(most, whole(cost))
				}
			}
		}
	}
	least.Sub(least, regained(&b.Band, final.At-since))
	least.Sub(least, whole(1)) // what is left is rounded
	least = lesser(least, whole(b.Capacity))
	if b.kind() == rules.TokenBucket {
		most.Add(most, whole(1))
	}
	switch {
	case used.Cmp(least) < 0:
		s.violate(LineConservation, final.At, "bucket %s, %s: %s tokens are used in the end, at least %s were admitted and settled", bucket, b.Name(), used.FloatString(0), least.FloatString(1))
	case used.Cmp(most) > 0:
		s.violate(LineConservation, final.At, "bucket %s, %s: %s tokens are used in the end, at most %s were admitted, settled and lost", bucket, b.Name(), used.FloatString(0), most.FloatString(1))
	}
}

func (s *spec) killed(gateway int) bool {
	return slices.ContainsFunc(s.facts, func(f Fact) bool { return f.Kind == Killed && f.Gateway == gateway })
}

// checkAnswered checks that requests are decided by the store while it answers: a request of the same call, of another
// caller, is no reason not to. Where a server is so far away that the connections for a burst take as long as a call
// may, the store has to decide some of them.
func (s *spec) checkAnswered() {
	for gateway := range s.Gateways {
		var first *Fact
		degraded, decided, far := 0, 0, s.Redis.Timeout < farAway*s.Gateways[gateway].Latency
		for i := range s.facts {
			f := &s.facts[i]
			if f.Kind != Decided || f.Gateway != gateway || f.Err != nil || s.excused(f, far) {
				continue
			}
			if decided++; f.Degraded {
				if degraded++; first == nil {
					first = f
				}
			}
		}
		if first != nil && (!far || degraded == decided && decided >= severalDecisions) {
			s.violate(LineRecovery, first.At, "%d of %d requests are decided without the store, which answers, first #%d: %s", degraded, decided, first.Check, first.Reason)
		}
	}
}

const (
	// farAway is the number of round trips below which a timeout is short: a new connection takes four, and a
	// request of several shards has half of its time for the first round.
	farAway = 50
	// severalDecisions are as many as show that none is decided by the store.
	severalDecisions = 10
)

// excused reports whether the store may have had no answer for a request.
func (s *spec) excused(f *Fact, far bool) bool {
	after := recovery + 2*s.Redis.Timeout + 4*s.Gateways[f.Gateway].Latency
	if f.Began <= s.startedAt(f.Gateway)+after { // there are no connections yet
		return true
	}
	if slices.ContainsFunc(s.faults, func(o span) bool { return f.At >= o.from && f.Began <= o.to+after }) {
		return true
	}
	return far && slices.ContainsFunc(s.Ops, func(op Op) bool { // each redirect is a round trip
		return op.Kind == OpMove && f.At >= op.At && f.Began <= op.At+op.Span+after
	})
}

// startedAt is when a gateway has started.
func (s *spec) startedAt(gateway int) (at time.Duration) {
	for i := range s.facts {
		if f := &s.facts[i]; f.Kind == Started && f.Gateway == gateway {
			at = f.At
		}
	}
	return at
}
