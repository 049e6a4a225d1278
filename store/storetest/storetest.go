// Package storetest is the conformance suite of a [store.Store]: checks that
// fail if a store is not exact. Run it on your own store:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) storetest.Backend {
//			clock := storetest.NewClock()
//			store := mystore.New(mystore.Config{Clock: clock.Now})
//			return storetest.Backend{Store: store, Advance: clock.Advance}
//		})
//	}
//
// The suite moves the store's clock and never sleeps. Every check uses keys of
// its own, so a backend may be opened once and shared. A store that takes tokens ahead
// says so in Backend.Leases, and is checked against the bounds that it publishes.
package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// Backend is a store under test.
type Backend struct {
	// Store is the store. The suite does not close it.
	Store store.Store
	// Advance moves the store's clock, also back. Nothing else may move it
	// while a check runs.
	Advance func(time.Duration)
	// Gateway opens another gateway to the same buckets, on the same clock. The suite
	// does not close it. Nil means that Store serves as each gateway.
	Gateway func(t testing.TB) store.Store
	// Warnings are those of the store. Nil skips the checks of warnings.
	Warnings Warnings
	// Leases are the bounds of gateways that take tokens ahead. The zero value is that
	// of gateways that do not.
	Leases Leases
}

// Leases are the bounds of gateways that take tokens ahead and spend them in memory.
type Leases struct {
	// Time is for how long tokens may be spent after they were taken.
	Time time.Duration
	// Pause is for how long requests may be refused after a bucket had too few tokens,
	// although it has enough again.
	Pause time.Duration
	// Share bounds what a gateway holds of one bucket: its capacity divided by Share.
	// That is lost if the gateway dies.
	Share int64
}

// Check is one property of every store.
type Check struct {
	// Name is the invariant it belongs to and a sentence.
	Name string
	// Run fails t if the store does not have it.
	Run func(t testing.TB, b Backend)
}

// Run runs every check as a subtest on a backend of its own. open may return
// the same backend each time.
func Run(t *testing.T, open func(t testing.TB) Backend) {
	t.Helper()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			b := open(t)
			if b.Store == nil || b.Advance == nil {
				t.Fatal("a Backend needs a Store and a function that moves its clock")
			}
			c.Run(t, b)
		})
	}
}

// Checks returns all checks.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{
		exactChecks, rejectionChecks, atomicChecks, expiryChecks, changeChecks, ruleChangeChecks,
		identityChecks, clockChecks, costChecks, waitChecks, settleChecks, extremeChecks, minChecks, overdraftChecks, countingChecks,
		resetChecks, concurrencyChecks, kindChecks, holderChecks, memoryChecks, leaseChecks, warningChecks,
	} {
		all = append(all, group...)
	}
	return all
}

// Clock is a clock for stores that can be given one.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a stopped clock at a time with an odd microsecond.
func NewClock() *Clock {
	return &Clock{now: time.UnixMicro(1_700_000_000_123_457)}
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock, also back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
