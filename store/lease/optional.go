package lease

import (
	"context"
	"errors"

	"github.com/fluxgate/fluxgate"
)

// What a store may have beside the methods of [fluxgate.Store]. Each calls the wrapped
// store, or does what its callers do without it.
var (
	_ fluxgate.Extender       = (*Store)(nil)
	_ fluxgate.GatewayCounter = (*Store)(nil)
	_ fluxgate.Charger        = (*Store)(nil)
	_ fluxgate.ResetForgetter = (*Store)(nil)
	_ fluxgate.ResetCounter   = (*Store)(nil)
)

// Extend implements [fluxgate.Extender].
func (s *Store) Extend(ctx context.Context, receipt *fluxgate.Receipt) (held []bool, err error) {
	if store, ok := s.Store.(fluxgate.Extender); ok {
		return store.Extend(ctx, receipt)
	}
	return nil, errors.New("the store cannot renew slots")
}

// Gateways implements [fluxgate.GatewayCounter]. It is 0 if the store is not shared.
func (s *Store) Gateways() int {
	if store, ok := s.Store.(fluxgate.GatewayCounter); ok {
		return store.Gateways()
	}
	return 0
}

// Charge implements [fluxgate.Charger].
func (s *Store) Charge(ctx context.Context, demands []fluxgate.Demand, out *fluxgate.Outcome) error {
	if store, ok := s.Store.(fluxgate.Charger); ok {
		return store.Charge(ctx, demands, out)
	}
	return s.Store.Take(ctx, demands, out)
}

// Resets implements [fluxgate.ResetCounter].
func (s *Store) Resets() uint64 {
	if store, ok := s.Store.(fluxgate.ResetCounter); ok {
		return store.Resets()
	}
	return 0
}

// ForgetResets implements [fluxgate.ResetForgetter].
func (s *Store) ForgetResets(ctx context.Context, ruleSet string, there func(rule string) bool) error {
	if store, ok := s.Store.(fluxgate.ResetForgetter); ok {
		return store.ForgetResets(ctx, ruleSet, there)
	}
	return nil
}

// ResetOnce resets a rule or a rule set like Reset, unless a gateway has done so with
// the same mark before. It reports whether it did. A store that keeps no marks resets
// every time.
func (s *Store) ResetOnce(ctx context.Context, what fluxgate.Key, mark string) (bool, error) {
	store, ok := s.Store.(interface {
		ResetOnce(ctx context.Context, what fluxgate.Key, mark string) (bool, error)
	})
	if !ok {
		return true, s.Reset(ctx, what)
	}
	did, err := store.ResetOnce(ctx, what, mark)
	s.refusals.generation.Add(1) // also if another gateway did it
	return did, err
}
