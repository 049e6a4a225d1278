// Package weigh turns the levels of buckets into the results that a store
// answers with. Every store that knows levels answers by it, so that they all
// say the same.
package weigh

import (
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
)

// Demand says whether a demand fits, and how long each band makes it wait.
func Demand(d *fluxgate.Demand, view *bucket.View, result *fluxgate.Result) {
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
	}
}

// Report writes what is left into the result. It returns how long until every
// band is full, in microseconds.
func Report(bands []fluxgate.ExactBand, view *bucket.View, result *fluxgate.Result) (full int64) {
	for i := range bands {
		after := bands[i].FullAfter(view.Levels[i], view.Now)
		result.Bands[i].Remaining = bands[i].Remaining(view.Levels[i])
		result.Bands[i].FullAfter = time.Duration(after) * time.Microsecond
		full = max(full, after)
	}
	return full
}
