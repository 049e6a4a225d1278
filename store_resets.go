package fluxgate

import (
	"context"
	"errors"
)

// ErrTooManyResets is wrapped by errors of [Store.Reset]: more rules of a rule
// set were reset one by one than the store keeps track of. Nothing was reset.
// Reset the whole rule set instead: that makes room.
var ErrTooManyResets = errors.New("too many resets")

// ResetForgetter is a [Store] that can forget resets of deleted rules.
type ResetForgetter interface {
	// ForgetResets forgets the resets of deleted rules of a rule set. A rule
	// that is added again may find the buckets it had before its reset.
	ForgetResets(ctx context.Context, ruleSet string, there func(rule string) bool) error
}

// ResetCounter is a shared [Store] that sees the resets of other gateways.
type ResetCounter interface {
	// Resets grows with each reset that the store has seen. What was known of its
	// buckets before may be void.
	Resets() uint64
}

// resetIn resets buckets in a store. If that needs room, resets of deleted
// rules are forgotten.
func (e *Engine) resetIn(ctx context.Context, store Store, what Key) error {
	err := store.Reset(ctx, what)
	forgetter, ok := store.(ResetForgetter)
	if !ok || !errors.Is(err, ErrTooManyResets) {
		return err
	}
	set := e.rules.RuleSet(ctx, what.RuleSet)
	if set == nil {
		return err
	}
	there := func(rule string) bool {
		_, ok := set.Rule(rule)
		return ok
	}
	if err := forgetter.ForgetResets(ctx, what.RuleSet, there); err != nil {
		return err
	}
	return store.Reset(ctx, what)
}
