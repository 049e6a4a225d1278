package lease

import (
	"sync/atomic"
	"time"
)

// journeyWindow is for how long round trips are compared.
const journeyWindow = time.Second

// journeys measures the shortest recent round trip to the store: longer ones were spent in queues.
// Notes that are lost in a race do no harm.
type journeys struct {
	window           atomic.Int64 // the number of the current one
	shortest, former atomic.Int64 // in nanoseconds, of the current window and the one before; 0 for none
}

// note adds a call that was answered.
func (j *journeys) note(sent, answered time.Time) {
	took, window := max(1, int64(answered.Sub(sent))), answered.UnixNano()/int64(journeyWindow)
	if w := j.window.Load(); w != window && j.window.CompareAndSwap(w, window) {
		j.former.Store(j.shortest.Swap(took))
		return
	}
	for s := j.shortest.Load(); s == 0 || took < s; s = j.shortest.Load() {
		if j.shortest.CompareAndSwap(s, took) {
			return
		}
	}
}

// recent returns the shortest recent round trip, 0 if none is known.
func (j *journeys) recent() time.Duration {
	shortest, former := j.shortest.Load(), j.former.Load()
	if shortest == 0 || former > 0 && former < shortest {
		shortest = former
	}
	return time.Duration(shortest)
}

// far reports whether the store is too far away for slices.
func (j *journeys) far() bool { return j.recent() > MaxRoundTrip }
