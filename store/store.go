// Package store is the contract between engines and the stores that keep buckets: what a
// request demands of them, what they answer, and what it takes to settle that later.
//
// A store decides all demands of a request at once, and keeps the limits exactly: the
// bands come with the demand, in the integers that every store computes with. Packages
// store/memstore and store/redisstore are stores, store/lease wraps one, and
// store/storetest is the suite that each must pass.
package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
)

// Store keeps buckets and decides. Every method may be called by any number
// of goroutines. A store that only this process uses embeds [Unshared]. The
// package store/storetest has the suite that every Store must pass.
type Store interface {
	// Take takes from every band of every demand, or from none, and writes
	// what happened into out, which the caller owns and may have used before
	// (see [Outcome.Prepare]).
	//
	// An enforced demand that does not fit, waiting included, keeps all of them
	// from taking anything. A shadow demand takes where it fits and never keeps
	// others from it. An overdraft is debited whatever becomes of the others, and so is a
	// demand that counts refused hits where it does not fit. Alternative demands keep the
	// others from taking if none of them fits. A demand that could not be decided is
	// Unavailable and is ignored. An error means that nothing could be decided.
	//
	// At most MaxMatches demands are possible at once. The caller may reuse
	// them when Take returns.
	Take(ctx context.Context, demands []Demand, out *Outcome) error

	// Peek reports whether Take would admit the demands and after which wait,
	// and changes nothing: remaining tokens and time to full are those before
	// the take.
	Peek(ctx context.Context, demands []Demand, out *Outcome) error

	// Settle corrects what was taken to the cost that is known now, one for
	// each take: it gives back, as far as that cannot be handed out twice, or
	// charges, into bounded debt. It calls [CheckTakes] first, and returns one
	// settlement for each take. If there is an error, takes that it concerns
	// have the zero Settlement. Those that did not reach the server are no
	// error: see [Settlement.NotSent].
	Settle(ctx context.Context, takes Takes, actual []int64) ([]Settlement, error)

	// Extend renews the slots that are held, each for the hold of its band from
	// now. It reports for each take whether it still held all of its slots,
	// which one without slots does. A lost slot does not keep others from being
	// renewed, and neither does a failure: takes that failed are reported as not
	// held.
	Extend(ctx context.Context, takes Takes) (held []bool, err error)

	// Reset fills buckets, and reports whether it did: see [Reset].
	Reset(ctx context.Context, what Reset) (did bool, err error)

	// Resets grows with each reset that the store has seen of other gateways.
	// What was known of its buckets before may be void.
	Resets() uint64

	// Gateways returns how many gateways used the store when it was last
	// available, or 0 if gateways do not share it.
	Gateways() int

	// FromMemory says in words which answers to a demand may come from the
	// memory of this process although gateways share the store, and why others
	// may not. It is empty if none do.
	FromMemory(d *Demand) string

	// Salt is mixed into every key. All processes that share the buckets share
	// it.
	Salt() []byte

	// Close ends what the store started itself.
	Close() error
}

// Reset says which buckets to fill: those of one caller, or without an ID all of
// a rule, or without a Rule all of a rule set. It costs the same however many
// there are.
type Reset struct {
	Key
	// Mark names a reset of a rule or a rule set that several gateways want. A
	// shared store does it once, for the first of them. Empty means a reset of
	// its own.
	Mark string
	// Exists reports whether a rule of the rule set exists. A store that keeps
	// track of a bounded number of resets for each rule set forgets those of
	// deleted rules if it needs the room: a rule that is added again may find
	// the buckets it had before its reset. Without it, or if all rules exist,
	// it refuses more with an [ErrTooManyResets].
	Exists func(rule string) bool
}

// Fallback is a [Store] of this process that continues the levels of a shared one.
type Fallback interface {
	Store

	// SetLevel sets a bucket set to the levels that the shared store reported
	// for a demand: it is full after the same time. Levels that are older than
	// those it has from the shared store change nothing. It is called after
	// every decision of the shared store, and must be fast.
	SetLevel(d *Demand, r *Result)
}

// Unshared is what a [Store] embeds that only this process uses.
type Unshared struct{}

// Gateways implements [Store].
func (Unshared) Gateways() int { return 0 }

// Resets implements [Store].
func (Unshared) Resets() uint64 { return 0 }

// FromMemory implements [Store].
func (Unshared) FromMemory(*Demand) string { return "" }

// Bounds of what a demand may ask for.
const (
	// MaxBands is how many bands one bucket set may have.
	MaxBands = bucket.MaxBands
	// MaxWait is the longest wait.
	MaxWait = bucket.MaxWait
	// MaxMatches is how many demands there may be for one request.
	MaxMatches = 64
)

// ExactBand is a band in the integers that stores compute with.
type ExactBand = bucket.Band

// HolderID names a request that is under way.
type HolderID = bucket.HolderID

// ErrTooManyResets is wrapped by errors of [Store.Reset]: more rules of a rule
// set were reset one by one than the store keeps track of. Nothing was reset.
// Reset the whole rule set instead: that makes room.
var ErrTooManyResets = errors.New("too many resets")

// Key names one bucket set: all bands of one rule for one caller.
type Key struct {
	RuleSet, Rule string
	// ID is the bucket set: a salted hash of rule set, rule, scope and
	// identity. It alone names the bucket; RuleSet and Rule are for resets.
	// Nothing the caller sent can be read from it or chosen in it.
	ID KeyID
}

// KeyID is the hashed identity in a [Key].
type KeyID [16]byte

// String is the id in hexadecimal.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Demand is what one request wants of one bucket set.
type Demand struct {
	// Key names the bucket set. The ids of the keys in one call differ.
	Key Key
	// Bands are what the bucket set is measured by, 1 to MaxBands. They come
	// with the demand, so that a limit may come from anywhere. The list must
	// not be changed after it was passed to a store.
	Bands []ExactBand
	// Cost is how many tokens to take from each band. A cost of 0 takes
	// nothing.
	Cost int64
	// Min is the least that the demand accepts: it is granted the whole tokens
	// that all of its bands have now, at most Cost. Where that is less than Min
	// it is decided as a demand for Min tokens, which may wait: what is granted
	// beyond Min never does. 0 means Cost, all or nothing.
	Min int64
	// MaxWait is how long the caller would wait for its tokens.
	MaxWait time.Duration
	// Holder names the request where a band limits how many there are at the same
	// time. It is random, and one for all demands of the request. A demand without
	// it holds no slot: a charge for what has ended.
	Holder HolderID
	// Strict demands are not answered from the memory of the gateway, and Leased ones may be
	// from the first on. They are for stores that wrap another: see package store/lease.
	Strict, Leased bool
	// Charging demands come before a charge of what was granted without the store. After an
	// outage a shared store refuses other demands with [ErrNotSent] for a while, until all
	// gateways can have charged it.
	Charging bool
	// Shadow demands are measured and never reject.
	Shadow bool
	// Overdraft demands are debited in any case, also where the request is
	// rejected: for what has been used already. Each band is debited up to the
	// largest debt, which is that of settlements. The demand fits while every
	// band has more than 0 left before the debit. It has no Min and no MaxWait.
	Overdraft bool
	// Alternative demands reject if none of those in one call fits. They count refused hits.
	Alternative bool
}

// CountsRefused reports whether the band of the demand counts refused hits: the demand is
// over if more than the capacity is used with it, and is then debited whatever becomes of
// the request. It has one band, and no Min and no MaxWait.
func (d *Demand) CountsRefused() bool { return len(d.Bands) == 1 && d.Bands[0].CountsRefused }

// Debited reports whether a demand with this status is debited also if the request is
// rejected.
func (d *Demand) Debited(s Status) bool {
	return d.Overdraft && s != Unavailable || d.CountsRefused() && (s == Rejected || s == TooCostly)
}

// Minimum is Min with its default.
func (d *Demand) Minimum() int64 {
	if d.Min == 0 {
		return d.Cost
	}
	return d.Min
}

// ErrNotSent is wrapped by errors about calls that were not sent, because the
// server is known not to answer: nothing was taken.
var ErrNotSent = errors.New("the call was not sent")

// ErrRefused is wrapped by errors about calls that the server refused, for example
// because it is out of memory: nothing was taken.
var ErrRefused = errors.New("the call was refused")

// ErrDemand is wrapped by errors about demands that no store can answer.
var ErrDemand = errors.New("invalid demand")

// countsSoundly reports whether a demand that counts refused hits does so as it may.
func (d *Demand) countsSoundly() bool {
	return d.CountsRefused() && d.Bands[0].Kind == bucket.Quota && d.Min == 0 && d.MaxWait == 0 && !d.Overdraft
}

// CheckDemands refuses demands that break the contract. Stores call it first.
func CheckDemands(demands []Demand) error {
	if len(demands) > MaxMatches {
		return fmt.Errorf("%w: %d demands at once, at most %d are possible", ErrDemand, len(demands), MaxMatches)
	}
	for i := range demands {
		d := &demands[i]
		switch {
		case d.Cost < 0:
			return fmt.Errorf("%w: a cost of %d", ErrDemand, d.Cost)
		case d.Min < 0 || d.Min > d.Cost:
			return fmt.Errorf("%w: at least %d tokens of a cost of %d", ErrDemand, d.Min, d.Cost)
		case d.Overdraft && (d.Min > 0 || d.MaxWait > 0):
			return fmt.Errorf("%w: an overdraft has no least cost and does not wait", ErrDemand)
		case len(d.Bands) == 0 || len(d.Bands) > MaxBands:
			return fmt.Errorf("%w: %d bands", ErrDemand, len(d.Bands))
		case d.MaxWait < 0 || d.MaxWait > MaxWait:
			return fmt.Errorf("%w: a wait of %v, at most %v is possible", ErrDemand, d.MaxWait, MaxWait)
		}
		slots, counts := 0, d.Alternative
		for j := range d.Bands {
			b := &d.Bands[j]
			counts = counts || b.CountsRefused
			if b.Kind == bucket.Concurrency {
				slots++
			}
			if b.Kind == bucket.Quota && (b.Edges[0] >= b.Edges[1] || b.Edges[1] >= b.Edges[2]) {
				return fmt.Errorf("%w: a quota of rule %s has no period", ErrDemand, d.Key.Rule)
			}
		}
		if counts && !d.countsSoundly() {
			return fmt.Errorf("%w: counting refused hits takes one quota, without a least cost, a wait or an overdraft, and an alternative does so", ErrDemand)
		}
		if slots > 1 {
			return fmt.Errorf("%w: %d bands of rule %s limit concurrency, at most one can", ErrDemand, slots, d.Key.Rule)
		}
		for j := range i {
			if demands[j].Key.ID == d.Key.ID {
				return fmt.Errorf("%w: one bucket set is demanded twice, by rule %s", ErrDemand, d.Key.Rule)
			}
		}
	}
	return nil
}

// Status is the result of one demand.
type Status uint8

// The statuses.
const (
	// OK means that the demand fits: it was taken if all were admitted.
	OK Status = iota
	// Rejected means that it does not fit yet.
	Rejected
	// TooCostly means that it can never fit: a band holds less than its cost.
	TooCostly
	// Unavailable means that the store could not decide.
	Unavailable
	// NotAsked means that another demand of the request was known not to fit.
	NotAsked
)

// String is the status in words.
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
	// FromLease are tokens that were taken in advance.
	FromLease
	// FromNegativeCache is an earlier answer that is still valid.
	FromNegativeCache
	// FromFallback is the store in this process while the shared one is
	// unavailable.
	FromFallback
)

// String is the source in words.
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

// Admission is what a Take or a Peek decided for its demands together.
type Admission uint8

// The admissions.
const (
	// Undecided means that the store could not decide an enforced demand, and
	// that none of the others keeps the request from passing. Those with
	// status OK were taken.
	Undecided Admission = iota
	// Admitted means that every enforced demand fits. Those with status OK
	// were taken.
	Admitted
	// NotAdmitted means that an enforced demand does not fit. Nothing was
	// taken but what is [Demand.Debited].
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
	// Granted is how many tokens were taken from each band, or in a Peek would
	// have been. For an overdraft it is the smallest debit of a band.
	Granted int64
	// Now is the clock that decided, in microseconds since 1970. The shards
	// of a cluster each have their own.
	Now int64
	// Wait is how long until the tokens of an OK demand are due, or until a
	// Rejected one would fit with its Min.
	Wait time.Duration
	// Bands has one entry per band.
	Bands []BandResult
}

// BandResult is the state of one band after the decision.
type BandResult struct {
	// Remaining is how many whole tokens are left.
	Remaining int64
	// Owed is how many tokens are booked beyond the capacity, rounded up: debt
	// from a settlement, or reservations of requests that wait. Nothing fits
	// before they have come back.
	Owed int64
	// Wait is this band's part in the wait of its demand.
	Wait time.Duration
	// FullAfter is how long until the bucket is full.
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

// Decide sets the admission from the statuses of the results, and Granted to 0
// where nothing is taken for it. Stores call it once every result has its
// status and what it could be granted.
func (o *Outcome) Decide(demands []Demand) {
	o.Admission = o.admission(demands)
	for i := range demands {
		status := o.Results[i].Status
		if !demands[i].Debited(status) && (o.Admission == NotAdmitted || status != OK) {
			o.Results[i].Granted = 0
		}
	}
}

func (o *Outcome) admission(demands []Demand) Admission {
	admission, alternatives, over := Admitted, 0, 0
	for i := range demands {
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
	if alternatives > 0 && over == alternatives {
		return NotAdmitted
	}
	return admission
}

// Admitted reports whether the demands were admitted.
func (o *Outcome) Admitted() bool { return o.Admission == Admitted }
