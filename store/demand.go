package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
)

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

// String returns the id in hexadecimal.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText implements [encoding.TextMarshaler]. It returns the id in hexadecimal.
func (id KeyID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *KeyID) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(id) {
		return fmt.Errorf("a key has %d characters, not %d", hex.EncodedLen(len(id)), len(text))
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Demand is the tokens that one request wants from one bucket set.
type Demand struct {
	// Key names the bucket set. The ids of the keys in one call differ.
	Key Key
	// Bands are the limits of the bucket set, 1 to MaxBands. They come with the
	// demand: the store does not know rules. The caller must not change the list
	// after it was passed to a store.
	Bands []ExactBand
	// Cost is how many tokens to take from each band, at most MaxCost. A cost of 0
	// takes nothing.
	Cost int64
	// Min is the least number of tokens that the demand accepts. It is granted the
	// whole tokens that all of its bands have now, at most Cost. If that is less than
	// Min, it is decided as a demand for Min tokens, which may wait. 0 means Cost: all
	// or nothing.
	Min int64
	// MaxWait is the longest time that the caller waits for its tokens.
	MaxWait time.Duration
	// Holder names the request under a limit on concurrent requests. It is random, and
	// the same for all demands of the request. A demand without a Holder holds no slot:
	// it charges for a request that has ended.
	Holder HolderID
	// Strict demands are not answered from the memory of the process, Leased demands may be
	// from the first on. They are for stores that wrap another: see package store/lease.
	Strict, Leased bool
	// Charging demands come before tokens that were granted without the store are debited.
	// After an outage a shared store rejects other demands with [ErrNotSent] for a while, until
	// all processes have had time to debit theirs.
	Charging bool
	// Shadow demands are counted and never reject.
	Shadow bool
	// Overdraft demands are debited even if the request is rejected: for usage that has
	// already happened. Each band is debited up to the largest debt, which is that of
	// settlements. The demand fits while every band has more than 0 left before the
	// debit. It has no Min and no MaxWait.
	Overdraft bool
	// Alternative demands reject only if none of them in one call fits. They count rejected hits.
	Alternative bool
	// DebitOnly is set in all demands of a request that is rejected already. None takes anything
	// unless it is [Demand.Debited], and the request is not admitted.
	DebitOnly bool
	// OnFailure decides the demand while the store is unavailable. It is for package
	// store/failover. Other stores ignore it.
	OnFailure OnFailure
}

// OnFailure is what decides a demand that the store could not.
type OnFailure uint8

// The failure modes.
const (
	// FailOpen means nothing: the demand stays Unavailable, and the others decide.
	FailOpen OnFailure = iota
	// FailClosed rejects the request.
	FailClosed
	// FailLocal lets the fallback decide.
	FailLocal
	// FailLocalCut is FailLocal with a cost of at most what the bucket of the fallback can hold.
	FailLocalCut
)

// Local reports whether the fallback decides.
func (f OnFailure) Local() bool { return f == FailLocal || f == FailLocalCut }

// CountsRefused reports whether the band of the demand counts rejected hits: the demand is
// over if more than the capacity is used with it, and is then debited even if the request
// is rejected. It has one band, and no Min and no MaxWait.
func (d *Demand) CountsRefused() bool { return len(d.Bands) == 1 && d.Bands[0].CountsRefused }

// Debited reports whether a demand with this status is debited also if the request is
// rejected.
func (d *Demand) Debited(s Status) bool {
	return d.Overdraft && s != Unavailable || d.CountsRefused() && (s == Rejected || s == TooCostly)
}

// Minimum returns Min, or its default.
func (d *Demand) Minimum() int64 {
	if d.Min == 0 {
		return d.Cost
	}
	return d.Min
}

// ErrDemand is wrapped by errors about demands that no store can answer.
var ErrDemand = errors.New("invalid demand")

// countsSoundly reports whether a demand that counts refused hits does so as it may.
func (d *Demand) countsSoundly() bool {
	return d.CountsRefused() && d.Bands[0].Kind == bucket.Quota && d.Min == 0 && d.MaxWait == 0 && !d.Overdraft
}

func errCost(cost int64) error {
	return fmt.Errorf("%w: a cost of %d, between 0 and %d is allowed", ErrDemand, cost, int64(MaxCost))
}

// CheckDemands returns an error for demands that break the contract. Stores call it first.
func CheckDemands(demands []Demand) error {
	if len(demands) > MaxMatches {
		return fmt.Errorf("%w: %d demands at once, at most %d are allowed", ErrDemand, len(demands), MaxMatches)
	}
	for i := range demands {
		d := &demands[i]
		switch {
		case d.Cost < 0 || d.Cost > MaxCost:
			return errCost(d.Cost)
		case d.Min < 0 || d.Min > d.Cost:
			return fmt.Errorf("%w: at least %d tokens of a cost of %d", ErrDemand, d.Min, d.Cost)
		case d.Overdraft && (d.Min > 0 || d.MaxWait > 0):
			return fmt.Errorf("%w: an overdraft has no least cost and does not wait", ErrDemand)
		case d.DebitOnly != demands[0].DebitOnly:
			return fmt.Errorf("%w: only some demands are of a rejected request", ErrDemand)
		case len(d.Bands) == 0 || len(d.Bands) > MaxBands:
			return fmt.Errorf("%w: %d bands", ErrDemand, len(d.Bands))
		case d.MaxWait < 0 || d.MaxWait > MaxWait:
			return fmt.Errorf("%w: a wait of %v, at most %v is allowed", ErrDemand, d.MaxWait, MaxWait)
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
			return fmt.Errorf("%w: counting rejected hits takes one quota, "+
				"without a least cost, a wait or an overdraft, and an alternative does so", ErrDemand)
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
