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
	"errors"
	"sync/atomic"
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

	// Now returns the time of the clock that decides, as far as it is known: see [Clock].
	Now() time.Time

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

// Now implements [Store].
func (Unshared) Now() time.Time { return time.Now() }

// FromMemory implements [Store].
func (Unshared) FromMemory(*Demand) string { return "" }

// Clock is the clock of a server, as far as this process knows it: the last time that the
// server has reported, and the time since. Until then it is the clock of this machine.
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

// ErrNotSent is wrapped by errors about calls that were not sent, because the
// server is known not to answer: nothing was taken.
var ErrNotSent = errors.New("the call was not sent")

// ErrRefused is wrapped by errors about calls that the server refused, for example
// because it is out of memory: nothing was taken.
var ErrRefused = errors.New("the call was refused")
