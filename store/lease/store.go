package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// MaxAge is how long a rejection is answered from memory.
const MaxAge = time.Second

// Config configures a [Store]. The zero value is valid.
type Config struct {
	// Now returns the time. It must not step back. Nil means time.Now.
	Now func() time.Time
	// Go starts a call for the next slice in parallel to the request. Nil means a goroutine.
	// On virtual time, where no call takes time, it may call the function itself.
	Go func(call func())
}

// Store answers from memory where it can, and otherwise calls the store that it
// wraps. It is safe for use by any number of goroutines.
type Store struct {
	store.Store
	now      func() time.Time
	start    func(call func())
	refusals refusals
	leases   *leases
	counts   counts
	journeys journeys

	mu     sync.Mutex
	closed bool
	asks   sync.WaitGroup
}

// New returns a store that wraps another.
func New(buckets store.Store, config Config) *Store {
	s := &Store{Store: buckets, now: config.Now, start: config.Go}
	if s.now == nil {
		s.now = time.Now
	}
	if s.start == nil {
		s.start = func(call func()) { go call() }
	}
	s.leases = &leases{start: s.now(), gateways: s.Gateways, counts: &s.counts, returns: s.giveBack}
	s.refusals.resets = s.Resets
	return s
}

// Stats counts what the store has saved since it was created.
type Stats struct {
	// Refused is how many calls were rejected because their buckets had rejected before.
	Refused uint64
	// Paused is how many calls were rejected because their bucket had less than a slice,
	// or other processes took its tokens, and it was not asked again yet.
	Paused uint64
	// Spent is how many calls were admitted from slices.
	Spent uint64
	// Slices is how many slices the shared store has granted, Granted how many tokens
	// they had, and Wasted how many of them were not spent in time.
	Slices, Granted, Wasted int64
	// Held is how many tokens can be spent now, of Buckets bucket sets.
	Held, Buckets int64
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	c := &s.counts
	stats := Stats{
		Refused: c.refused.Load(), Paused: c.paused.Load(), Spent: c.spent.Load(),
		Slices: c.slices.Load(), Granted: c.granted.Load(),
	}
	s.eachLease(func(l *lease) {
		if held := l.heldAt(s.now()); held > 0 {
			stats.Held += held
			stats.Buckets++
		}
	})
	stats.Wasted = c.wasted.Load() // after those that have ended are counted
	return stats
}

func (s *Store) eachLease(do func(*lease)) {
	for i := range s.leases.places {
		if l := s.leases.places[i].Load(); l != nil {
			do(l)
		}
	}
}

// begin reports whether the store is open. If so, asks has one more.
func (s *Store) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.asks.Add(1)
	}
	return !s.closed
}

// giveBack gives tokens of slices back as far as possible, in parallel to requests.
func (s *Store) giveBack(left store.Takes) {
	if !s.begin() {
		return
	}
	s.start(func() {
		defer s.asks.Done()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = s.Settle(ctx, left, left.Same(0)) // what does not come back refills
	})
}

// Close gives the tokens of the slices back as far as possible, and closes the wrapped
// store.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.asks.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var left store.Takes
	s.eachLease(func(l *lease) { left = append(left, l.end(s.now())...) })
	for part := range slices.Chunk(left, store.MaxMatches) {
		_, _ = s.Store.Settle(ctx, part, part.Same(0)) // what does not come back refills
	}
	return s.Store.Close()
}

// Unsent returns how many settlements of the wrapped store itself wait until a server is available,
// and how many are lost.
func (s *Store) Unsent() (waiting, lost int64) {
	if wrapped, ok := s.Store.(interface{ Unsent() (waiting, lost int64) }); ok {
		return wrapped.Unsent()
	}
	return 0, 0
}

// Settle implements [store.Store].
func (s *Store) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	settled, err := s.Store.Settle(ctx, takes, actual)
	for i := range takes {
		s.refusals.drop(takes[i].Key.ID)
	}
	return settled, err
}

// Reset implements [store.Store].
func (s *Store) Reset(ctx context.Context, what store.Reset) (did bool, err error) {
	did, err = s.Store.Reset(ctx, what)
	s.refusals.generation.Add(1) // those of all buckets: resets are rare. Also if another gateway did it
	return did, err
}
