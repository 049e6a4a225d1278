package lease

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
)

// refusals are the last refusals of buckets. Buckets share its slots by their ids,
// which are hashes, so its size is fixed: a refusal that another one replaces costs a
// call to the store.
type refusals struct {
	slots [1 << 16]atomic.Pointer[refusal]
	// generation grows with each reset. Refusals of an older one are void.
	generation atomic.Uint64
}

// refusal is that of one bucket set.
type refusal struct {
	key        fluxgate.KeyID
	bands      []fluxgate.ExactBand
	generation uint64
	sent       time.Time // before the call that was refused
	cost       int64     // the least that does not fit
	result     fluxgate.Result
}

func (r *refusals) slot(id fluxgate.KeyID) *atomic.Pointer[refusal] {
	return &r.slots[binary.LittleEndian.Uint16(id[:])]
}

func (r *refusals) drop(id fluxgate.KeyID) { r.slot(id).Store(nil) }

// refuse reports whether a bucket refuses the demands for certain, and writes the
// outcome.
func (s *Store) refuse(now time.Time, demands []fluxgate.Demand, out *fluxgate.Outcome) bool {
	var first *refusal // the one that refuses, whatever other requests change meanwhile
	at := 0
	for i := range demands {
		if demands[i].Overdraft {
			return false // it is debited in any case
		}
		if first == nil && !demands[i].Shadow {
			first, at = s.refusedBy(&demands[i], now), i
		}
	}
	if first == nil || fluxgate.CheckDemands(demands) != nil {
		return false
	}
	out.Prepare(demands)
	for i := range demands {
		result, known := &out.Results[i], first
		if i != at {
			known = s.refusedBy(&demands[i], now)
		}
		if known != nil && !demands[i].Shadow {
			known.write(&demands[i], now, result)
		} else {
			result.Status = fluxgate.NotAsked
		}
		result.Source = fluxgate.FromNegativeCache
	}
	out.Decide(demands)
	return true
}

// refusedBy returns the refusal that a demand cannot fit because of, or nil. What is
// held of the bucket is spent first: another request may have been refused meanwhile, one
// that waits or costs more.
func (s *Store) refusedBy(d *fluxgate.Demand, now time.Time) *refusal {
	known := s.refusals.of(d, now)
	if known != nil && s.leases != nil && s.leases.holds(d, known.generation, now) {
		return nil
	}
	return known
}

// of returns the refusal that a demand cannot fit because of, or nil.
func (r *refusals) of(d *fluxgate.Demand, now time.Time) *refusal {
	if d.Consistency == fluxgate.ConsistencyStrict || d.Cost == 0 {
		return nil
	}
	known := r.slot(d.Key.ID).Load()
	if known == nil || known.key != d.Key.ID || known.generation != r.generation.Load() {
		return nil
	}
	// The bucket decided after the call was sent, so less time has passed for it.
	passed := now.Sub(known.sent)
	if passed >= MaxAge || d.Minimum() < known.cost || known.result.Wait-passed <= d.MaxWait || !slices.Equal(known.bands, d.Bands) {
		return nil
	}
	return known
}

// write writes the result of a demand that does not fit.
func (known *refusal) write(d *fluxgate.Demand, now time.Time, result *fluxgate.Result) {
	passed := now.Sub(known.sent)
	result.Status, result.Now = fluxgate.Rejected, known.result.Now+passed.Microseconds()
	result.Wait = known.result.Wait - passed
	if !bucket.Affordable(d.Bands, d.Minimum()) {
		result.Status, result.Wait = fluxgate.TooCostly, 0
	}
	for j := range result.Bands {
		band := known.result.Bands[j]
		band.Wait = max(0, band.Wait-passed)
		if result.Status == fluxgate.TooCostly {
			band.Wait = 0
		}
		band.FullAfter = max(0, band.FullAfter-passed)
		result.Bands[j] = band
	}
}

// note keeps the refusals of a call that was sent then, and drops those of buckets that
// it took from.
func (r *refusals) note(sent time.Time, generation uint64, demands []fluxgate.Demand, out *fluxgate.Outcome) {
	for i := range demands {
		d, result := &demands[i], &out.Results[i]
		if result.Granted > 0 {
			r.drop(d.Key.ID) // less is left than it says
		}
		if result.Status != fluxgate.Rejected || result.Source != fluxgate.FromStore || slices.ContainsFunc(d.Bands, isConcurrency) {
			continue
		}
		kept := &refusal{key: d.Key.ID, bands: d.Bands, generation: generation, sent: sent, cost: d.Minimum(), result: *result}
		kept.result.Bands = slices.Clone(result.Bands)
		r.slot(d.Key.ID).Store(kept)
	}
}

// A slot may be free at any moment, when another request ends.
func isConcurrency(b fluxgate.ExactBand) bool { return b.Kind == bucket.Concurrency }
