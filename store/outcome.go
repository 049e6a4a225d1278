package store

import (
	"slices"
	"time"
)

// Status is the result of one demand.
type Status uint8

// The statuses.
const (
	// OK means that the demand fits. Its tokens were taken if all demands were admitted.
	OK Status = iota
	// Rejected means that the demand does not fit yet.
	Rejected
	// TooCostly means that the demand never fits: its cost is above the capacity of a band.
	TooCostly
	// Unavailable means that the store could not decide.
	Unavailable
	// NotAsked means that there was no call to the store, since another demand of the request does not fit.
	NotAsked
)

// String returns the status as text.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown"
}

var statusNames = [...]string{"ok", "rejected", "too costly", "unavailable", "not asked"}

// ParseStatus reads what [Status.String] wrote.
func ParseStatus(s string) (Status, bool) {
	i := slices.Index(statusNames[:], s)
	return Status(max(0, i)), i >= 0
}

// Source is where an answer came from.
type Source uint8

// The sources.
const (
	// FromStore is the shared store, or the only one.
	FromStore Source = iota
	// FromLease means tokens that were taken in advance.
	FromLease
	// FromNegativeCache is an earlier answer that is still valid.
	FromNegativeCache
	// FromFallback is the store in this process while the shared store is
	// unavailable.
	FromFallback
)

// String returns the source as text.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "unknown"
}

var sourceNames = [...]string{"store", "lease", "negative-cache", "fallback"}

// ParseSource reads what [Source.String] wrote.
func ParseSource(s string) (Source, bool) {
	i := slices.Index(sourceNames[:], s)
	return Source(max(0, i)), i >= 0
}

// Admission is the combined result of all demands of a Take or a Peek.
type Admission uint8

// The admissions.
const (
	// Undecided means that the store could not decide an enforced demand, and
	// that no other demand rejects the request. Demands with status OK were
	// taken.
	Undecided Admission = iota
	// Admitted means that every enforced demand fits. Demands with status OK
	// were taken.
	Admitted
	// NotAdmitted means that an enforced demand does not fit. Nothing was
	// taken, except for demands that are [Demand.Debited].
	NotAdmitted
)

// Outcome is the result of a Take or a Peek.
type Outcome struct {
	// Admission is the combined result: see [Outcome.Decide].
	Admission Admission
	// Results has one entry per demand.
	Results []Result

	bands []BandResult
}

// Result is the outcome of one demand.
type Result struct {
	Status Status
	Source Source
	// Granted is how many tokens were taken from each band, or would be in a Peek.
	// For an overdraft it is the smallest debit of a band.
	Granted int64
	// Now is the clock that decided, in microseconds since 1970. The shards
	// of a cluster each have their own.
	Now int64
	// Wait is the time until the tokens of an OK demand are due, or until a
	// Rejected demand would fit with its Min.
	Wait time.Duration
	// Bands has one entry per band.
	Bands []BandResult
}

// BandResult is the state of one band after the decision.
type BandResult struct {
	// Remaining is the number of whole tokens left.
	Remaining int64
	// Owed is the number of tokens booked beyond the capacity, rounded up: debt
	// from a settlement, or reservations of waiting requests. Nothing fits until
	// they have come back.
	Owed int64
	// Wait is this band's part in the wait of its demand. Of an overdraft that was debited, it is the
	// time until another one fits.
	Wait time.Duration
	// MoreAfter is the time until more tokens than Remaining are left if none is taken. It is 0 if
	// the bucket is full, and for limits on concurrent requests, which end at any time.
	MoreAfter time.Duration
	// FullAfter is the time until the bucket is full. Slots of concurrent requests that are not
	// released come back when their hold has passed.
	FullAfter time.Duration
}

// Reuse lets the outcome use this memory.
func (o *Outcome) Reuse(results []Result, bands []BandResult) { o.Results, o.bands = results, bands }

// Prepare makes room for the results of the demands, reusing what is there.
func (o *Outcome) Prepare(demands []Demand) {
	total := 0
	for i := range demands {
		total += len(demands[i].Bands)
	}
	o.Admission = Undecided
	o.Results = slices.Grow(o.Results[:0], len(demands))[:len(demands)]
	o.bands = slices.Grow(o.bands[:0], total)[:total]
	rest := o.bands
	for i := range demands {
		n := len(demands[i].Bands)
		clear(rest[:n])
		o.Results[i] = Result{Bands: rest[:n:n]}
		rest = rest[n:]
	}
}

// Decide sets the admission from the statuses of the results, and Granted to 0 for
// demands that take nothing. Stores call it when every result has its status and
// the tokens that it could be granted.
func (o *Outcome) Decide(demands []Demand) {
	o.Admission = o.admission(demands)
	for i := range demands {
		status := o.Results[i].Status
		if !demands[i].Debited(status) && (o.Admission == NotAdmitted || status != OK || demands[i].DebitOnly) {
			o.Results[i].Granted = 0
		}
	}
}

func (o *Outcome) admission(demands []Demand) Admission {
	admission, alternatives, over, debits := Admitted, 0, 0, false
	for i := range demands {
		debits = demands[i].DebitOnly
		if demands[i].Shadow {
			continue
		}
		if demands[i].Alternative {
			alternatives++
		}
		switch status := o.Results[i].Status; {
		case status == OK:
		case status == Unavailable:
			admission = Undecided
		case demands[i].Alternative:
			over++
		default:
			return NotAdmitted
		}
	}
	if alternatives > 0 && over == alternatives || debits && admission == Admitted {
		return NotAdmitted
	}
	return admission
}

// Admitted reports whether the demands were admitted.
func (o *Outcome) Admitted() bool { return o.Admission == Admitted }
