package memstore

import (
	"context"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
)

// weighed is one demand on the scales.
type weighed struct {
	id    fluxgate.KeyID
	shard *shard
	entry *entry
	view  bucket.View
}

// decide weighs all demands at one moment and then takes all or none.
func (s *Store) decide(ctx context.Context, demands []fluxgate.Demand, out *fluxgate.Outcome, take bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := fluxgate.CheckDemands(demands); err != nil {
		return err
	}
	out.Prepare(demands)

	var space [4]weighed
	scales := space[:]
	if len(demands) > len(space) {
		scales = make([]weighed, len(demands))
	}
	var set uint64
	for i := range demands {
		w := &scales[i]
		w.id = s.resets.place(&demands[i].Key)
		n := shardOf(w.id)
		w.shard = &s.shards[n]
		set |= 1 << n
	}
	s.lock(set)
	// The clock is read under the locks: read before, another request could
	// have written a later moment, and time would seem to step back.
	now := s.clock()
	out.Admitted = true
	for i := range demands {
		w, d, result := &scales[i], &demands[i], &out.Results[i]
		w.entry = w.shard.find(w.id)
		if take {
			w.entry.adopt(now)
		}
		w.entry.look(d.Bands, now, &w.view)
		result.Now = now
		weigh(d, &w.view, result)
		if result.Status != fluxgate.OK && !d.Shadow {
			out.Admitted = false
		}
	}
	for i := range demands {
		w, d, result := &scales[i], &demands[i], &out.Results[i]
		taken := take && out.Admitted && result.Status == fluxgate.OK && d.Cost > 0
		if taken {
			w.view.Take(d.Bands, d.Cost)
		}
		full := report(d.Bands, &w.view, result)
		if !taken {
			continue
		}
		if i > 0 {
			// Writing another one may have evicted this one's entry.
			w.entry = w.shard.find(w.id)
		}
		w.shard.write(w.entry, w.id, d.Bands, &w.view, full)
	}
	for i := range demands {
		scales[i].shard.sweep(now)
	}
	s.unlock(set)
	return nil
}

// weigh says whether a demand fits, and how long each band makes it wait.
func weigh(d *fluxgate.Demand, view *bucket.View, result *fluxgate.Result) {
	if !bucket.Affordable(d.Bands, d.Cost) {
		result.Status = fluxgate.TooCostly
		return
	}
	for i := range d.Bands {
		wait := time.Duration(d.Bands[i].Wait(view.Levels[i], d.Cost, view.Now)) * time.Microsecond
		result.Bands[i].Wait = wait
		result.Wait = max(result.Wait, wait)
	}
	if result.Wait > d.MaxWait {
		result.Status = fluxgate.Rejected
	}
}

// report writes what is left into the result. It returns how long until every
// band is full, in microseconds.
func report(bands []fluxgate.ExactBand, view *bucket.View, result *fluxgate.Result) (full int64) {
	for i := range bands {
		after := bands[i].FullAfter(view.Levels[i], view.Now)
		result.Bands[i].Remaining = bands[i].Remaining(view.Levels[i])
		result.Bands[i].FullAfter = time.Duration(after) * time.Microsecond
		full = max(full, after)
	}
	return full
}
