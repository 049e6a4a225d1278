package model

import (
	"maps"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// checkShares checks that a gateway that decides alone applies its share.
func (s *spec) checkShares() {
	servers := map[int]int{}
	type holding struct {
		gateway int
		bucket  string
		band    uint32
	}
	held := map[holding]map[int]time.Duration{}
	for i := range s.facts {
		f := &s.facts[i]
		switch f.Kind {
		case FleetSeen, Started:
			if f.Kind == FleetSeen {
				servers[f.Gateway] = f.Gateways
			}
			maps.DeleteFunc(held, func(id holding, _ map[int]time.Duration) bool { return id.gateway == f.Gateway })
		case FallbackReset:
			clear(held)
		case StoreTook, StorePeeked: // it counts requests that began since the store was away
			for j := range f.Buckets {
				maps.DeleteFunc(held, func(id holding, _ map[int]time.Duration) bool {
					return id.gateway == f.Gateway && id.bucket == f.Buckets[j].Bucket && f.Answered
				})
			}
		case FallbackSettled:
			for j := range f.Buckets {
				for k := range f.Buckets[j].Exact {
					delete(held[holding{f.Gateway, f.Buckets[j].Bucket, f.Buckets[j].Exact[k].ID}], f.Buckets[j].Holder)
				}
			}
		case FallbackTook:
			for j := range f.Buckets {
				b := &f.Buckets[j]
				for k := range b.Exact {
					whole := s.wholeOf(f, b, k)
					if whole == nil {
						continue
					}
					most := shareOf(&whole.Band, servers[f.Gateway])
					if !s.checkShareNumbers(f, b, whole, servers[f.Gateway], k) {
						return
					}
					if whole.kind() != rules.Concurrency || b.Granted == 0 || b.Holder == 0 {
						continue
					}
					id := holding{f.Gateway, b.Bucket, b.Exact[k].ID}
					if held[id] == nil {
						held[id] = map[int]time.Duration{}
					}
					for holder, until := range held[id] {
						if until <= f.At+time.Microsecond { // the fallback's ticks begin with its process
							delete(held[id], holder)
						}
					}
					held[id][b.Holder] = f.At.Truncate(time.Microsecond) + b.Exact[k].Period
					if int64(len(held[id])) > most {
						s.violate(LineShare, f.At, "%d requests hold slots of bucket %s at gateway %d alone, at most %d", len(held[id]), b.Bucket, f.Gateway, most)
						return
					}
				}
			}
		}
	}
}

// wholeOf is the band of which the fallback of a gateway applies a share.
func (s *spec) wholeOf(f *Fact, b *BucketFact, k int) *band {
	d := s.decided[f.Check]
	if d == nil {
		return nil
	}
	for i := range d.Rules {
		if r := d.Rules[i].Rule; r.ID == b.Rule && d.Rules[i].Bucket == b.Bucket && k < len(r.Bands) {
			if exact, err := r.Bands[k].Exact(k); err == nil && exact.ID == b.Exact[k].ID {
				return s.bandOf(r.ID, &exact)
			}
		}
	}
	return nil
}

// slice is tokens that a gateway took ahead.
type slice struct {
	from, until time.Duration
	left        int64
}

// checkLeases checks that what gateways hand out of slices was granted to them, is handed
// out once, and within the lease time.
func (s *spec) checkLeases() {
	slices := map[gatewayBucket][]slice{}
	for i := range s.facts {
		f := &s.facts[i]
		switch {
		case f.Kind == Killed || f.Kind == Stopped:
			for id := range slices {
				if id.gateway == f.Gateway {
					delete(slices, id)
				}
			}
		case f.Kind == StoreTook && f.Answered && !f.Charge:
			for j := range f.Buckets {
				b := &f.Buckets[j]
				ahead := b.Granted
				if !f.Leased {
					ahead -= b.Min
				}
				if b.Min > 0 && ahead > 0 {
					id := gatewayBucket{f.Gateway, b.Bucket}
					slices[id] = append(slices[id], slice{f.At, f.Began + leaseTime, ahead})
				}
			}
		case f.Kind == Decided && f.Allowed && f.Err == nil:
			for j := range f.Rules {
				if r := &f.Rules[j]; r.Source == store.FromLease && r.Granted > 0 {
					s.spend(f, r, slices[gatewayBucket{f.Gateway, r.Bucket}])
				}
			}
		}
	}
}

// spend takes tokens from the slices that end first.
func (s *spec) spend(f *Fact, r *RuleFact, of []slice) {
	at := f.At - f.Held // the tokens were due before the request waited for others
	if s.faultAt(f.Gateway, f.Began, f.At) {
		at = f.Began // it had other rules to wait for
	}
	need := r.Granted
	for i := range of {
		if of[i].until >= at && of[i].left > 0 {
			n := min(need, of[i].left)
			of[i].left -= n
			need -= n
		}
	}
	if need > 0 {
		s.violateOnce(LineLease, r.Bucket, f.At, "request %d takes %d tokens of bucket %s from slices of gateway %d, which have %d less that can be spent now", f.Check, r.Granted, r.Bucket, f.Gateway, need)
	}
}
