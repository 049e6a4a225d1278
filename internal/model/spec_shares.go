package model

import (
	"math/big"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// checkShareNumbers checks the numbers that the fallback of a gateway applies: C/N rounded down and at
// least one token, and R/N, which may be rounded against the caller.
func (s *spec) checkShareNumbers(f *Fact, b *BucketFact, whole *band, servers int, k int) (ok bool) {
	has, share := &b.Exact[k], shareOf(&whole.Band, servers)
	switch {
	case has.Capacity > share:
		s.violate(LineShare, f.At, "gateway %d, which knows of %d, applies %d of %d to bucket %s, at most %d", f.Gateway, servers, has.Capacity, whole.Capacity, b.Bucket, share)
		return false
	case has.Capacity < share:
		s.violate(LineShare, f.At, "gateway %d, which knows of %d, applies %d of %d to bucket %s, at least %d", f.Gateway, servers, has.Capacity, whole.Capacity, b.Bucket, share)
		return false
	case whole.kind() != rules.TokenBucket:
		return true
	}
	rate, due := rateOf(has), new(big.Rat).Quo(rateOf(&whole.exact), big.NewRat(int64(max(1, servers)), 1))
	if rate.Cmp(due) > 0 || rate.Cmp(new(big.Rat).Mul(due, sharedRate)) < 0 {
		part, _ := new(big.Rat).Quo(rate, due).Float64()
		s.violate(LineShare, f.At, "gateway %d, which knows of %d, refills %g times its share of bucket %s", f.Gateway, servers, part, b.Bucket)
		return false
	}
	return true
}

// rateOf is how many tokens come back in a microsecond.
func rateOf(e *store.ExactBand) *big.Rat {
	return new(big.Rat).SetFrac(big.NewInt(e.Rate), new(big.Int).Mul(big.NewInt(e.Unit), big.NewInt(e.Tick)))
}

// alone is what a fallback has granted of a band that it began full.
type alone struct {
	at   time.Duration
	used *big.Rat
}

// checkSharesUsed checks that a gateway that has begun without the store grants its share.
func (s *spec) checkSharesUsed() {
	type place struct {
		gatewayBucket
		band uint32
	}
	servers, granted, spoiled, used := map[int]int{}, map[int]bool{}, map[gatewayBucket]bool{}, map[place]*alone{}
	if s.any(FallbackReset, StoreReset, RulesInEffect, ClockStepped) || len(s.Overrides) > 0 {
		return
	}
	for i := range s.facts {
		f := &s.facts[i]
		switch f.Kind {
		case FleetSeen:
			if granted[f.Gateway] {
				return // its shares change
			}
			servers[f.Gateway] = f.Gateways
		case Stopped, Killed, Stalled:
			return
		case StoreTook, StorePeeked, StoreSettled:
			for j := range f.Buckets {
				spoiled[gatewayBucket{f.Gateway, f.Buckets[j].Bucket}] = true
			}
		case FallbackSettled: // what comes back is not counted
			for j := range f.Buckets {
				b := &f.Buckets[j]
				for k := range b.Exact {
					if u := used[place{gatewayBucket{f.Gateway, b.Bucket}, b.Exact[k].ID}]; u != nil {
						u.used.Add(u.used, whole(max(0, b.Actual-b.Cost)))
					}
				}
			}
		case FallbackTook:
			granted[f.Gateway] = true
			for j := range f.Buckets {
				b := &f.Buckets[j]
				id := gatewayBucket{f.Gateway, b.Bucket}
				fits := b.Status == store.Rejected && !b.Overdraft && !b.counted() && !spoiled[id]
				for k := range b.Exact {
					numbers := s.wholeOf(f, b, k)
					if numbers == nil || numbers.kind() == rules.Concurrency {
						fits = false
						continue
					}
					p := place{id, b.Exact[k].ID}
					if used[p] == nil {
						used[p] = &alone{f.At, new(big.Rat)}
					}
					u := used[p]
					back := new(big.Rat).Mul(outageRefills(&numbers.Band, servers[f.Gateway], f.At-u.at), sharedRate)
					u.used, u.at = greater(new(big.Rat), u.used.Sub(u.used, back)), f.At
					left := new(big.Rat).Sub(whole(shareOf(&numbers.Band, servers[f.Gateway])), u.used)
					if floor(left) <= b.Cost {
						fits = false
					}
					u.used.Add(u.used, whole(b.Granted))
				}
				if fits {
					s.violateOnce(LineShare, b.Bucket, f.At, "gateway %d, which knows of %d, refuses a cost of %d in bucket %s, of which it has granted less than its share", f.Gateway, servers[f.Gateway], b.Cost, b.Bucket)
				}
			}
		}
	}
}
