// Package store is the contract between engines and stores: the demands of a request, the
// outcome, and the takes that are settled later. Stores keep buckets.
//
// A store decides all demands of a request at once, and applies the limits exactly. The
// bands come with the demand, in the integers that every store computes with. Packages
// store/memstore and store/redisstore are stores. Package store/lease wraps a store.
// Package store/storetest is the suite that each store must pass.
package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
)

// Store keeps buckets and decides. Every method may be called by any number
// of goroutines. A store that only this process uses embeds [Unshared]. The
// package store/storetest has the suite that every Store must pass.
type Store interface {
	// Take takes from every band of every demand, or from none, and writes the
	// outcome into out, which the caller owns and may have used before (see
	// [Outcome.Prepare]).
	//
	// If an enforced demand does not fit, even with waiting, no demand takes anything. A
	// shadow demand takes if it fits, and never rejects. An overdraft is always debited, and
	// so is a demand that counts rejected hits and does not fit. Alternative demands reject if
	// none of them fits. A demand that could not be decided is Unavailable and is ignored. An
	// error means that nothing could be decided.
	//
	// At most MaxMatches demands are allowed in one call. The caller may reuse them
	// when Take returns.
	Take(ctx context.Context, demands []Demand, out *Outcome) error

	// Peek reports whether Take would admit the demands and after which wait,
	// and changes nothing: remaining tokens and time to full are those before
	// the take.
	Peek(ctx context.Context, demands []Demand, out *Outcome) error

	// Settle corrects takes to their actual costs, one cost for each take. It gives
	// tokens back, except those that could then be taken twice, or charges more, into
	// bounded debt. It calls [CheckTakes] first, and returns one settlement for each
	// take. Takes that failed have the zero Settlement. A settlement that did not reach
	// the server is not an error: see [Settlement.NotSent].
	Settle(ctx context.Context, takes Takes, actual []int64) ([]Settlement, error)

	// Extend renews slots, each for the hold of its band from now. It reports for
	// each take whether it still held all of its slots. A take without slots counts
	// as held, a take that failed as not held. After a lost slot or a failure the
	// other slots are still renewed.
	Extend(ctx context.Context, takes Takes) (held []bool, err error)

	// Reset resets buckets to full, and reports whether it did: see [Reset].
	Reset(ctx context.Context, what Reset) (did bool, err error)

	// Warn adds a warning to those of the store, once for each bucket set, band, percent and
	// capacity until its Ends, whichever process reports it. It sets Ends to when the warning
	// that the store has ends: of a sliding window that may be earlier.
	Warn(ctx context.Context, w *Warning) error

	// Resets grows with each reset of another process that the store has seen. Earlier
	// knowledge of its buckets may then be wrong.
	Resets() uint64

	// Gateways returns how many processes used the store when it was last
	// available, or 0 if processes do not share it.
	Gateways() int

	// FromMemory describes which answers to a demand may come from the memory
	// of this process although processes share the store, and why others may
	// not. It is empty if the store decides every demand.
	FromMemory(d *Demand) string

	// Now returns the time of the clock that decides, as far as it is known. A store knows it
	// before its first decision: periods that the machine's clock has computed could end on
	// another day. See [Clock].
	Now() time.Time

	// Salt is mixed into every key. All processes that share the buckets have
	// the same salt.
	Salt() []byte

	// Close ends the goroutines and connections that the store started. Later calls of a store
	// with connections fail with [ErrClosed], so that nothing tries for ever to reach it.
	Close() error
}

// Reset names the buckets to reset to full: those of one caller, all of a rule if it
// has no ID, or all of a rule set if it has no Rule. The cost does not depend on
// their number.
type Reset struct {
	Key
	// Mark names a reset of a rule or a rule set that several processes request. A
	// shared store does it once, for the first of them. Empty means a separate
	// reset.
	Mark string
	// After is the mark of the state that the reset follows. If it is the last mark that was
	// used, the reset is done although its own mark was used before: a former state has
	// returned. Empty means that it is unknown.
	After string
	// Exists reports whether a rule of the rule set exists. A store that keeps
	// track of a bounded number of resets for each rule set forgets those of
	// deleted rules if it needs the room. A rule that is added again may then find
	// the buckets it had before its reset. Without Exists, or if all rules exist,
	// the store rejects further resets with an [ErrTooManyResets].
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

// Unshared is embedded by a [Store] that only this process uses.
type Unshared struct{}

// Gateways implements [Store].
func (Unshared) Gateways() int { return 0 }

// Resets implements [Store].
func (Unshared) Resets() uint64 { return 0 }

// Now implements [Store].
func (Unshared) Now() time.Time { return time.Now() }

// FromMemory implements [Store].
func (Unshared) FromMemory(*Demand) string { return "" }

// Clock is the clock of a server, as far as this process knows it: the last time that the
// server has reported, and the time since. Before the first report it is the clock of this
// machine, so a store gets one when it is opened.
type Clock struct{ start atomic.Int64 }

// begun is a moment to measure the time since, also if the machine's clock steps.
var begun = time.Now()

// Report notes the time of the server, in microseconds since 1970.
func (c *Clock) Report(micros int64) { c.start.Store(micros - time.Since(begun).Microseconds()) }

// Now implements [Store].
func (c *Clock) Now() time.Time {
	if start := c.start.Load(); start != 0 {
		return time.UnixMicro(start + time.Since(begun).Microseconds())
	}
	return time.Now()
}

// The bounds of demands.
const (
	// MaxBands is the maximum number of bands of a bucket set.
	MaxBands = bucket.MaxBands
	// MaxWait is the longest wait.
	MaxWait = bucket.MaxWait
	// MaxCost is the largest cost of a demand, a take or a settlement: all stores compute with
	// whole numbers that a double holds exactly.
	MaxCost = bucket.MaxUnits
	// MaxMatches is the maximum number of demands of a request.
	MaxMatches = 64
)

// ExactBand is a band in the integers that stores compute with.
type ExactBand = bucket.Band

// HolderID names a running request.
type HolderID = bucket.HolderID

// ErrTooManyResets is wrapped by errors of [Store.Reset]: more rules of a rule
// set were reset one by one than the store keeps track of. Nothing was reset.
// Reset the whole rule set instead: that makes room.
var ErrTooManyResets = errors.New("too many resets")

// ErrNotSent is wrapped by errors about calls that were not sent, because the
// server does not answer. Nothing was taken.
var ErrNotSent = errors.New("the call was not sent")

// ErrClosed is wrapped by errors about calls to a store that is closed. Nothing was taken, and no
// later call will be sent.
var ErrClosed = fmt.Errorf("%w: the store is closed", ErrNotSent)

// ErrRefused is wrapped by errors about calls that the server rejected, for example
// because it is out of memory. Nothing was taken.
var ErrRefused = errors.New("the call was rejected")
