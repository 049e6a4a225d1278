package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
)

// MaxAge is for how long a refusal is answered from memory.
const MaxAge = time.Second

// Config configures a [Store]. The zero value is valid.
type Config struct {
	// Now returns the time. It must not step back. Nil means time.Now.
	Now func() time.Time
}

// Store answers from memory where it can, and otherwise calls the store that it
// wraps. It is safe for use by any number of goroutines.
type Store struct {
	fluxgate.Store
	now      func() time.Time
	refusals refusals
	refused  atomic.Uint64
}

var (
	_ fluxgate.Extender       = (*Store)(nil)
	_ fluxgate.GatewayCounter = (*Store)(nil)
	_ fluxgate.Charger        = (*Store)(nil)
)

// New returns a store that wraps another.
func New(store fluxgate.Store, config Config) *Store {
	s := &Store{Store: store, now: config.Now}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Stats counts what the store has saved.
type Stats struct {
	// Refused is how many calls were refused from memory.
	Refused uint64
}

// Stats returns the counts since the store was created.
func (s *Store) Stats() Stats { return Stats{Refused: s.refused.Load()} }

// Take implements [fluxgate.Store].
func (s *Store) Take(ctx context.Context, demands []fluxgate.Demand, out *fluxgate.Outcome) error {
	sent, generation := s.now(), s.refusals.generation.Load()
	if ctx.Err() == nil && s.refusals.refuse(sent, demands, out) {
		s.refused.Add(1)
		return nil
	}
	err := s.Store.Take(ctx, demands, out)
	if err == nil {
		s.refusals.note(sent, generation, demands, out)
	}
	return err
}

// Settle implements [fluxgate.Store].
func (s *Store) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual []int64) ([]fluxgate.Settlement, error) {
	settled, err := s.Store.Settle(ctx, receipt, actual)
	if receipt != nil {
		for i := range receipt.Takes {
			s.refusals.drop(receipt.Takes[i].Key.ID)
		}
	}
	return settled, err
}

// Reset implements [fluxgate.Store].
func (s *Store) Reset(ctx context.Context, what fluxgate.Key) error {
	err := s.Store.Reset(ctx, what)
	s.refusals.generation.Add(1) // those of all buckets: resets are rare
	return err
}

// Extend implements [fluxgate.Extender].
func (s *Store) Extend(ctx context.Context, receipt *fluxgate.Receipt) (held bool, err error) {
	if store, ok := s.Store.(fluxgate.Extender); ok {
		return store.Extend(ctx, receipt)
	}
	return false, errors.New("the store cannot renew slots")
}

// Gateways implements [fluxgate.GatewayCounter].
func (s *Store) Gateways() int {
	if store, ok := s.Store.(fluxgate.GatewayCounter); ok {
		return store.Gateways()
	}
	return 1
}

// Charge implements [fluxgate.Charger].
func (s *Store) Charge(ctx context.Context, demands []fluxgate.Demand, out *fluxgate.Outcome) error {
	if store, ok := s.Store.(fluxgate.Charger); ok {
		return store.Charge(ctx, demands, out)
	}
	return s.Store.Take(ctx, demands, out)
}
