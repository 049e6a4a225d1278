package fluxgate

import (
	"context"
	"errors"
)

// ErrTooManyResets is wrapped by errors of [Store.Reset]: more rules of a rule
// set were reset one by one than the store keeps track of. Nothing was reset.
// The reset of the whole rule set is possible, and makes room.
var ErrTooManyResets = errors.New("too many resets")

// ResetForgetter is a [Store] that can forget resets of rules that are gone.
type ResetForgetter interface {
	// ForgetResets forgets the resets of those rules of a rule set that are
	// not there any more. If such a rule comes back it may find the buckets
	// that it had before its reset.
	ForgetResets(ctx context.Context, ruleSet string, there func(rule string) bool) error
}

// resetIn resets buckets in a store. Where that needs room, resets of rules that
// the rule set does not have any more are forgotten.
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
