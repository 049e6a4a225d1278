// Package bucketmath is the arithmetic of a token bucket for those who write a
// store: exact integers, without a clock, a lock or a network. Every store
// here answers by it, so that they all say the same.
//
// A store keeps a [State] for each key. To decide a demand it brings the state
// to now, weighs the demand, takes if all demands of the request fit, and
// reports what is left:
//
//	var view bucketmath.View
//	state.View(demand.Bands, now, &view)
//	bucketmath.Demand(&demand, &view, &result)
//	outcome.Decide(demands) // once all of them are weighed
//	if result.Granted > 0 {
//		view.Take(demand.Bands, result.Granted)
//		state.Store(demand.Bands, &view)
//	}
//	full := bucketmath.Report(demand.Bands, &view, &result) // forget it from then on
//
// A clock that stepped back is followed with [State.Adopt] before that, and a
// receipt is settled with [View.Settle]. The times are microseconds of the
// store's clock.
package bucketmath

import (
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
)

// State is what a store keeps of one bucket set. The zero State is full.
type State = bucket.State

// View is a bucket set brought to one moment for one list of bands.
type View = bucket.View

// Booking is one take as its receipt remembers it.
type Booking = bucket.Booking

// Booked is what a receipt says was taken from one bucket set.
func Booked(t *fluxgate.Taken) Booking {
	return Booking{Cost: t.Cost, At: t.At, Due: t.Due}
}

// Settlement is what [View.Settle] says, as a store answers it.
func Settlement(tokens int64) fluxgate.Settlement {
	return fluxgate.Settlement{Returned: max(0, tokens), Charged: max(0, -tokens)}
}

// Demand says whether a demand fits, and how long each band makes it wait.
func Demand(d *fluxgate.Demand, view *View, result *fluxgate.Result) {
	result.Now = view.Now
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
		return
	}
	result.Granted = d.Cost
}

// Report writes what is left into the result. It returns how long until every
// band is full, in microseconds: from then on keeping the bucket set and
// forgetting it are the same.
func Report(bands []fluxgate.ExactBand, view *View, result *fluxgate.Result) (full int64) {
	for i := range bands {
		after := bands[i].FullAfter(view.Levels[i], view.Now)
		result.Bands[i].Remaining = bands[i].Remaining(view.Levels[i])
		result.Bands[i].Owed = bands[i].Owed(view.Levels[i])
		result.Bands[i].FullAfter = time.Duration(after) * time.Microsecond
		full = max(full, after)
	}
	return full
}
