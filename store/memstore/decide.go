package memstore

import (
	"context"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// lookup is the bucket set of a demand that is being decided.
type lookup struct {
	id          store.KeyID
	shard       *shard
	shardNumber int
	entry       *entry
	view        bucket.View
}

// decide checks the demands and allocates their lookups. Clearing that memory
// costs more than the decision, so it is no larger than needed.
func (s *Store) decide(ctx context.Context, demands []store.Demand, out *store.Outcome, take bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.CheckDemands(demands); err != nil {
		return err
	}
	out.Prepare(demands)
	switch n := len(demands); {
	case n <= 1:
		var lookups [1]lookup
		s.decideOn(lookups[:n], demands, out, take)
	case n <= 4:
		var lookups [4]lookup
		s.decideOn(lookups[:n], demands, out, take)
	default:
		s.decideOn(make([]lookup, n), demands, out, take)
	}
	return nil
}

// decideOn evaluates all demands at one moment and then takes all or none.
func (s *Store) decideOn(lookups []lookup, demands []store.Demand, out *store.Outcome, take bool) {
	for i := range lookups {
		w := &lookups[i]
		w.id = s.resets.place(&demands[i].Key)
		w.shardNumber = s.shardOf(w.id)
		w.shard = &s.shards[w.shardNumber]
	}
	s.lock(lookups)
	// The clock is read under the locks: otherwise another request could have
	// written a later time, and the clock would seem to step back.
	now := s.clock()
	for i := range lookups {
		w, d, result := &lookups[i], &demands[i], &out.Results[i]
		w.entry = w.shard.find(w.id)
		if take {
			w.entry.adopt(now)
		}
		w.entry.look(d.Bands, now, &w.view)
		bucketmath.Evaluate(d, &w.view, result)
	}
	out.Decide(demands)
	added := false
	for i := range lookups {
		w, d, result := &lookups[i], &demands[i], &out.Results[i]
		taken := take && bucketmath.Take(d, &w.view, result)
		bucketmath.Report(d.Bands, &w.view, result)
		if !taken {
			continue
		}
		if added {
			// Adding another one may have evicted this one's entry.
			w.entry = w.shard.find(w.id)
		}
		added = added || w.entry == nil
		full := now
		for j := range result.Bands {
			full = max(full, now+w.view.ForgottenAfter(d.Bands, j, result.Bands[j].FullAfter.Microseconds()))
		}
		w.shard.write(w.entry, w.id, &d.Key, d.Bands, &w.view, full)
	}
	for i := range lookups {
		lookups[i].shard.sweep(now)
	}
	s.unlock(lookups)
}
