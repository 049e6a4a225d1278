// Package bucketmath is the arithmetic of a token bucket for store
// implementations: exact integers, without a clock, a lock or a network. Every
// store of this module uses it, so that all decide the same.
//
// A store keeps a [State] for each key. To decide the demands of a request it
// brings each state to now and evaluates the demand. When all are evaluated,
// [store.Outcome.Decide] combines them. Then the store takes what was
// granted and reports what is left:
//
//	var view bucketmath.View
//	state.View(demand.Bands, now, &view)
//	bucketmath.Evaluate(&demand, &view, &result)
//	outcome.Decide(demands) // once all of them are evaluated
//	if bucketmath.Take(&demand, &view, &result) {
//		state.Store(demand.Bands, &view)
//		full := state.FullAfter() // forget it from then on
//	}
//	bucketmath.Report(demand.Bands, &view, &result)
//
// A clock that stepped back is followed with [State.Adopt] before that, and a
// take of a receipt is settled with [Settle]. The times are microseconds of the
// store's clock.
package bucketmath

import (
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// State is the stored state of one bucket set. The zero State is full.
type State = bucket.State

// View is a bucket set brought to one moment for one list of bands.
type View = bucket.View

// Settle corrects one take of a receipt to its actual cost. It reports whether
// that changed the state.
func Settle(t *store.Taken, state *State, actual, now int64) (s store.Settlement, changed bool) {
	booked := bucket.Booking{Cost: t.Cost, At: t.At, Due: t.Due, Holder: t.Holder}
	tokens, changed := state.Settle(t.Bands, booked, t.Correction(actual), now)
	s = Settlement(tokens)
	s.Level = Level(t.Bands, state, now)
	return s, changed
}

// Level returns the levels of quotas and sliding windows in a state, for [store.Settlement].
// It returns nil if no band is one.
func Level(bands []store.ExactBand, state *State, now int64) (level *store.Result) {
	var view View
	for i := range bands {
		if kind := bands[i].Kind; kind != bucket.Quota && kind != bucket.Window {
			continue
		}
		if level == nil {
			state.View(bands, now, &view)
			level = &store.Result{Now: now, Bands: make([]store.BandResult, len(bands))}
			bands = slices.Clone(bands)
		}
		bands[i].Unit = max(1, bands[i].Unit) // 0 in a settlement of other bands: a token of these kinds is one unit
		reportBand(bands, i, &view, level)
	}
	return level
}

// Settlement converts tokens that came back, or were charged if negative, to a
// settlement.
func Settlement(tokens int64) store.Settlement {
	return store.Settlement{Returned: max(0, tokens), Charged: max(0, -tokens)}
}

// Evaluate computes whether a demand fits, how long each band makes it wait,
// and what it can be granted.
func Evaluate(d *store.Demand, view *View, result *store.Result) {
	result.Now, view.Holder = view.Now, d.Holder
	if d.Overdraft || d.CountsRefused() {
		evaluateDebit(d, view, result)
		return
	}
	grant := view.Grant(d.Bands, d.Minimum(), d.Cost)
	if !bucket.Affordable(d.Bands, grant) {
		result.Status = store.TooCostly
		return
	}
	longest := d.MaxWait
	for i := range d.Bands {
		micros := view.WaitOf(d.Bands, i, grant)
		wait(result, i, micros)
		if micros > 0 && d.Bands[i].Kind != bucket.TokenBucket {
			longest = 0 // only token buckets can be waited for
		}
	}
	if result.Wait > longest {
		result.Status = store.Rejected
		return
	}
	result.Granted = grant
}

// evaluateDebit evaluates a demand that is debited also where it does not fit.
func evaluateDebit(d *store.Demand, view *View, result *store.Result) {
	debited := *view
	if d.Overdraft { // only windows have steps that a debit changes: Take does so
		debited.Steps = slices.Clone(view.Steps)
	}
	result.Granted, _ = debited.Overdraw(d.Bands, d.Cost)
	if d.CountsRefused() && !bucket.Affordable(d.Bands, d.Cost) {
		result.Status = store.TooCostly
		return
	}
	if d.Overdraft {
		evaluateOverdraft(d, view, result)
	} else {
		wait(result, 0, view.OverFor(d.Bands, 0, d.Cost))
	}
	if result.Wait > 0 {
		result.Status = store.Rejected
	}
}

// evaluateOverdraft notes how long each band makes an overdraft wait.
func evaluateOverdraft(d *store.Demand, view *View, result *store.Result) {
	for i := range d.Bands {
		wait(result, i, view.PositiveAfter(d.Bands, i))
	}
}

// wait notes how long one band makes a demand wait.
func wait(result *store.Result, band int, micros int64) {
	result.Bands[band].Wait = time.Duration(micros) * time.Microsecond
	result.Wait = max(result.Wait, result.Bands[band].Wait)
}

// Take takes what was granted from the view, and an overdraft whatever the
// outcome is. The bands of an overdraft wait for its own debit too: if the request is rejected,
// the next one does. Take reports whether it changed the view.
func Take(d *store.Demand, view *View, result *store.Result) (changed bool) {
	if d.Overdraft || d.CountsRefused() && result.Granted > 0 {
		_, changed = view.Overdraw(d.Bands, d.Cost)
		if d.Overdraft {
			evaluateOverdraft(d, view, result)
		}
		if result.Status == store.OK {
			result.Wait = 0
		}
		return changed
	}
	if result.Granted > 0 {
		view.Take(d.Bands, result.Granted)
	}
	return result.Granted > 0
}

// Report writes the remaining tokens into the result.
func Report(bands []store.ExactBand, view *View, result *store.Result) {
	for i := range bands {
		reportBand(bands, i, view, result)
	}
}

func reportBand(bands []store.ExactBand, i int, view *View, result *store.Result) {
	r := &result.Bands[i]
	r.Remaining = bands[i].Remaining(view.Levels[i])
	r.Owed = bands[i].Owed(view.Levels[i])
	r.MoreAfter = time.Duration(view.MoreAfterOf(bands, i, r.Remaining)) * time.Microsecond
	r.FullAfter = time.Duration(view.FullAfterOf(bands, i)) * time.Microsecond
}
