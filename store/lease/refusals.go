package lease

import (
	"encoding/binary"
	"math/rand/v2"
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
	// pause is how often the bucket is asked at most, by requests that do not wait. It
	// is 0 unless other gateways took the tokens that this one waited for. until is when
	// it is asked next, from when the call was sent.
	pause time.Duration
	until atomic.Int64
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
	for i := 0; i < len(demands) && first == nil; i++ {
		known := s.refusals.known(&demands[i], now)
		if known == nil || demands[i].Shadow {
			continue
		}
		// A request that a lease decides does not reach the store: it cannot end the pause.
		holds, refuses := s.leases.decides(&demands[i], known.generation, now)
		if !holds && !refuses && !known.endsPause(&demands[i], now) {
			first, at = known, i
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
		result.Source = fluxgate.FromNegativeCache
		if known != nil && !demands[i].Shadow {
			known.write(&demands[i], now, result)
		} else {
			result.Status = fluxgate.NotAsked
		}
	}
	out.Decide(demands)
	if out.Results[at].Source == fluxgate.FromLease {
		s.counts.paused.Add(1)
	} else {
		s.counts.refused.Add(1)
	}
	return true
}

// refusedBy returns the refusal that a demand cannot fit because of, or nil. What is
// held of the bucket is spent first: another request may have been refused meanwhile, one
// that waits or costs more.
func (s *Store) refusedBy(d *fluxgate.Demand, now time.Time) *refusal {
	known := s.refusals.of(d, now)
	if known != nil {
		if holds, _ := s.leases.decides(d, known.generation, now); holds {
			return nil
		}
	}
	return known
}

// of returns the refusal that a demand cannot fit because of, or nil.
func (r *refusals) of(d *fluxgate.Demand, now time.Time) *refusal {
	if known := r.known(d, now); known != nil && known.wait(d, now) > d.MaxWait {
		return known
	}
	return nil
}

// known returns the last refusal of a demand like this one, or nil.
func (r *refusals) known(d *fluxgate.Demand, now time.Time) *refusal {
	if d.Consistency == fluxgate.ConsistencyStrict || d.Cost == 0 {
		return nil
	}
	known := r.slot(d.Key.ID).Load()
	if known == nil || known.key != d.Key.ID || known.generation != r.generation.Load() {
		return nil
	}
	if now.Sub(known.sent) >= MaxAge || d.Minimum() < known.cost || !slices.Equal(known.bands, d.Bands) {
		return nil
	}
	return known
}

// wait is how long a demand does not fit, or is not asked for.
func (known *refusal) wait(d *fluxgate.Demand, now time.Time) time.Duration {
	wait := known.result.Wait
	if d.MaxWait == 0 {
		wait = max(wait, time.Duration(known.until.Load()))
	}
	return wait - now.Sub(known.sent) // the bucket decided later, so less time has passed for it
}

// endsPause reports whether the store decides a demand: the first one after a pause. The
// others are refused until there is an answer, or the pause is over again.
func (known *refusal) endsPause(d *fluxgate.Demand, now time.Time) bool {
	if known.pause == 0 || d.MaxWait > 0 {
		return true
	}
	passed, until := now.Sub(known.sent), known.until.Load()
	return int64(passed) >= until && known.until.CompareAndSwap(until, int64(passed+known.pause))
}

// write writes the result of a demand that does not fit.
func (known *refusal) write(d *fluxgate.Demand, now time.Time, result *fluxgate.Result) {
	passed := now.Sub(known.sent)
	result.Status, result.Now = fluxgate.Rejected, known.result.Now+passed.Microseconds()
	if known.result.Wait <= passed {
		result.Source = fluxgate.FromLease // it may have tokens
	}
	result.Wait = max(time.Microsecond, known.wait(d, now))
	if !bucket.Affordable(d.Bands, d.Minimum()) {
		result.Status, result.Wait = fluxgate.TooCostly, 0
	}
	for j := range result.Bands {
		band := known.result.Bands[j]
		if band.Wait = max(0, band.Wait-passed); known.result.Bands[j].Wait == known.result.Wait || result.Status == fluxgate.TooCostly {
			band.Wait = result.Wait
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
		if result.Granted > 0 || result.Status == fluxgate.OK {
			r.drop(d.Key.ID) // less is left than it says, or there was enough
		}
		if result.Status != fluxgate.Rejected || result.Source != fluxgate.FromStore || slices.ContainsFunc(d.Bands, isConcurrency) {
			continue
		}
		kept := &refusal{key: d.Key.ID, bands: d.Bands, generation: generation, sent: sent, cost: d.Minimum(), result: *result}
		kept.result.Bands = slices.Clone(result.Bands)
		slot := r.slot(d.Key.ID)
		kept.pauseAfter(slot.Load())
		slot.Store(kept)
	}
}

// pauseAfter makes a gateway ask less often where others took the tokens that the last
// refusal waited for: otherwise each gateway of a fleet asks for each token. A pause is
// at most as long as half of the bucket needs to come back, so that nothing is lost
// while all gateways pause.
func (known *refusal) pauseAfter(last *refusal) {
	if last == nil || last.key != known.key || last.generation != known.generation || last.cost < known.cost || !slices.Equal(last.bands, known.bands) {
		return
	}
	passed := known.sent.Sub(last.sent)
	switch due := last.result.Now + last.result.Wait.Microseconds(); {
	case known.result.Now < due: // it was asked before that was known, or a little early
		known.pause = last.pause
		known.until.Store(last.until.Load() - int64(passed))
	case passed < MaxAge:
		known.pause = MaxPause - rand.N(2*(MaxPause-Pause)) //nolint:gosec // no secret
		for _, b := range known.result.Bands {
			if b.Wait == known.result.Wait {
				known.pause = min(known.pause, b.FullAfter/2)
			}
		}
		known.until.Store(int64(known.pause))
	}
}

// A slot may be free at any moment, when another request ends.
func isConcurrency(b fluxgate.ExactBand) bool { return b.Kind == bucket.Concurrency }
