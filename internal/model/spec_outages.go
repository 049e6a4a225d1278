package model

import (
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// outage is a time in which a gateway uses its fallback for a bucket, until the store
// was charged for it.
type outage struct {
	gateway   int
	from, to  time.Duration
	servers   int
	uncharged bool
}

// outages are those of a bucket. Two with less than the time of a recovery between them
// are one.
func (s *spec) outages(bucket string) (all []outage) {
	open := map[int]int{} // by gateway, the place in all
	servers := map[int]int{}
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind == FleetSeen {
			servers[f.Gateway] = f.Gateways
		}
		if f.Kind == Killed || f.Kind == Stopped {
			if k, is := open[f.Gateway]; is && f.At <= all[k].to+recovery {
				all[k].uncharged = true
			}
			delete(open, f.Gateway)
			continue
		}
		if f.Kind != FallbackTook && (f.Kind != StoreTook || !f.Charge) {
			continue
		}
		for j := range f.Buckets {
			b := &f.Buckets[j]
			if b.Bucket != bucket || b.Granted == 0 {
				continue
			}
			k, is := open[f.Gateway]
			if !is || f.At > all[k].to+recovery {
				if f.Kind != FallbackTook {
					continue
				}
				k = len(all)
				all = append(all, outage{gateway: f.Gateway, from: f.Began, to: f.At, servers: max(1, servers[f.Gateway])})
				open[f.Gateway] = k
			}
			all[k].to = max(all[k].to, f.At)
			all[k].servers = min(all[k].servers, max(1, servers[f.Gateway])) // it may learn of fewer
		}
	}
	for k := range all {
		o := &all[k]
		o.uncharged = o.uncharged || s.changedIn(bucket, o) || slices.ContainsFunc(s.faults, func(f span) bool {
			loses := f.fault != NotSent && f.fault != Refused && f.fault != ShardAway
			return loses && (f.gateway == o.gateway || f.gateway == All) && f.from <= o.to+recovery && f.to+recovery >= o.from
		})
	}
	return all
}

// changedIn reports whether the bands of a bucket's rule have changed at a gateway in an outage,
// until it has charged the store: it does not charge for others.
func (s *spec) changedIn(bucket string, o *outage) bool {
	rule, _, _ := strings.Cut(bucket, "@")
	bands := func(version int, at time.Duration) []rules.Band {
		end, ends := s.endsAfter(version, rule, bucket)
		if r := s.ruleIn(version, rule); r != nil {
			return s.numbers(version, r, bucket, ends && at >= end)
		}
		return nil
	}
	before := bands(0, 0)
	for i := range s.facts {
		f := &s.facts[i]
		if f.Gateway != o.gateway || f.Kind != Started && f.Kind != RulesInEffect {
			continue
		}
		if end, ends := s.endsAfter(f.Version, rule, bucket); ends && (s.any(ClockStepped) || o.from <= end && end <= o.to+recovery) {
			return true
		}
		now := bands(f.Version, f.At)
		if o.from <= f.At && f.At <= o.to+recovery && !slices.Equal(before, now) {
			return true
		}
		before = now
	}
	return false
}
