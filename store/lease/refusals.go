package lease

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// refusals are the last refusals of buckets. Buckets share its slots by their ids,
// which are hashes, so its size is fixed: a refusal that another one replaces costs a
// call to the store.
type refusals struct {
	slots [1 << 16]atomic.Pointer[refusal]
	// generation grows with each reset. Refusals of an older one are void.
	generation atomic.Uint64
	resets     func() uint64 // that the shared store has seen
}

// current is the generation with the resets that other gateways have made.
func (r *refusals) current() uint64 { return r.generation.Load() + r.resets() }

// refusal is that of one bucket set.
type refusal struct {
	key        store.KeyID
	bands      []store.ExactBand
	generation uint64
	sent       time.Time // before the call that was refused
	cost       int64     // the least that does not fit
	result     store.Result
	// pause is the least time between two calls for requests that do not wait. It is 0
	// unless other gateways took the tokens that this one waited for. until is how long
	// after the call the next one may be sent.
	pause time.Duration
	until atomic.Int64
}

func (r *refusals) slot(id store.KeyID) *atomic.Pointer[refusal] {
	return &r.slots[binary.LittleEndian.Uint16(id[:])]
}

func (r *refusals) drop(id store.KeyID) { r.slot(id).Store(nil) }

// of returns the last refusal of a demand like this one, or nil.
func (r *refusals) of(d *store.Demand, now time.Time) *refusal {
	if d.Strict || d.Cost == 0 {
		return nil
	}
	known := r.slot(d.Key.ID).Load()
	if known == nil || known.key != d.Key.ID || known.generation != r.current() {
		return nil
	}
	if now.Sub(known.sent) >= MaxAge || d.Minimum() < known.cost || !slices.Equal(known.bands, d.Bands) {
		return nil
	}
	return known
}

// wait is how long a demand does not fit, or is not asked for.
func (known *refusal) wait(d *store.Demand, now time.Time) time.Duration {
	wait := known.result.Wait
	if d.MaxWait == 0 {
		wait = max(wait, time.Duration(known.until.Load()))
	}
	return wait - now.Sub(known.sent) // the bucket decided later, so less time has passed for it
}

// endedPause is a pause that a request ends, to ask the bucket.
type endedPause struct {
	*refusal
	demand     int
	last, next int64 // its end, and that of the pause that follows
}

// end reports whether this request is the first one after the pause. Others are refused
// until it has the answer, or the next pause is over, which begins when this one ended. If that is
// over already, all requests ask: the refusal is too old.
func (p *endedPause) end(now time.Time) bool {
	passed := int64(now.Sub(p.sent))
	p.last = p.until.Load()
	p.next = max(p.last, int64(p.result.Wait)) + int64(p.pause)
	return passed >= p.next || passed >= p.last && p.until.CompareAndSwap(p.last, p.next)
}

// restore lets the next request ask the buckets. An answer has replaced their refusals, so
// this has an effect only if there was none.
func restore(ended []endedPause) {
	for i := range ended {
		ended[i].until.CompareAndSwap(ended[i].next, ended[i].last)
	}
}

// write writes the result of a demand that does not fit.
func (known *refusal) write(d *store.Demand, now time.Time, result *store.Result) {
	passed := now.Sub(known.sent)
	result.Status, result.Now = store.Rejected, known.result.Now+passed.Microseconds()
	if known.result.Wait <= passed {
		result.Source = store.FromLease // it may have tokens
	}
	result.Wait = max(time.Microsecond, known.wait(d, now))
	if !bucket.Affordable(d.Bands, d.Minimum()) {
		result.Status, result.Wait = store.TooCostly, 0
	}
	for j := range result.Bands {
		band := known.result.Bands[j]
		if band.Wait = max(0, band.Wait-passed); known.result.Bands[j].Wait == known.result.Wait || result.Status == store.TooCostly {
			band.Wait = result.Wait
		}
		result.Bands[j] = aged(band, passed)
	}
}

// aged is the state of a band some time later. More tokens may have come back than it says.
func aged(band store.BandResult, passed time.Duration) store.BandResult {
	band.FullAfter = max(0, band.FullAfter-passed)
	if band.MoreAfter > 0 {
		band.MoreAfter = max(time.Microsecond, band.MoreAfter-passed)
	}
	return band
}

// note keeps the refusals of a call that was sent then, and drops those of buckets that
// it took from.
func (r *refusals) note(sent time.Time, generation uint64, demands []store.Demand, out *store.Outcome) {
	for i := range demands {
		d, result := &demands[i], &out.Results[i]
		if result.Granted > 0 || result.Status == store.OK {
			r.drop(d.Key.ID) // less is left than it says, or there was enough
		}
		if result.Status != store.Rejected || result.Source != store.FromStore ||
			slices.ContainsFunc(d.Bands, isConcurrency) || d.CountsRefused() {
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
	if last == nil || last.key != known.key || last.generation != known.generation ||
		last.cost < known.cost || !slices.Equal(last.bands, known.bands) {
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
func isConcurrency(b store.ExactBand) bool { return b.Kind == bucket.Concurrency }
