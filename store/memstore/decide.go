package memstore

import (
	"context"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// weighed is one demand on the scales.
type weighed struct {
	id          fluxgate.KeyID
	shard       *shard
	shardNumber int
	entry       *entry
	view        bucket.View
}

// decide checks the demands and sets up scales for them. Clearing scales costs
// more than weighing on them, so there are no more than it takes.
func (s *Store) decide(ctx context.Context, demands []fluxgate.Demand, out *fluxgate.Outcome, take bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := fluxgate.CheckDemands(demands); err != nil {
		return err
	}
	out.Prepare(demands)
	switch n := len(demands); {
	case n <= 1:
		var scales [1]weighed
		s.decideOn(scales[:n], demands, out, take)
	case n <= 4:
		var scales [4]weighed
		s.decideOn(scales[:n], demands, out, take)
	default:
		s.decideOn(make([]weighed, n), demands, out, take)
	}
	return nil
}

// decideOn weighs all demands at one moment and then takes all or none.
func (s *Store) decideOn(scales []weighed, demands []fluxgate.Demand, out *fluxgate.Outcome, take bool) {
	for i := range scales {
		w := &scales[i]
		w.id = s.resets.place(&demands[i].Key)
		w.shardNumber = s.shardOf(w.id)
		w.shard = &s.shards[w.shardNumber]
	}
	s.lock(scales)
	// The clock is read under the locks: read before, another request could
	// have written a later moment, and time would seem to step back.
	now := s.clock()
	for i := range scales {
		w, d, result := &scales[i], &demands[i], &out.Results[i]
		w.entry = w.shard.find(w.id)
		if take {
			w.entry.adopt(now)
		}
		w.entry.look(d.Bands, now, &w.view)
		bucketmath.Evaluate(d, &w.view, result)
	}
	out.Decide(demands)
	added := false
	for i := range scales {
		w, d, result := &scales[i], &demands[i], &out.Results[i]
		taken := take && bucketmath.Take(d, &w.view, result)
		full := bucketmath.Report(d.Bands, &w.view, result)
		if !taken {
			continue
		}
		if added {
			// Adding another one may have evicted this one's entry.
			w.entry = w.shard.find(w.id)
		}
		added = added || w.entry == nil
		w.shard.write(w.entry, w.id, &d.Key, d.Bands, &w.view, full)
	}
	for i := range scales {
		scales[i].shard.sweep(now)
	}
	s.unlock(scales)
}
