package fluxgate

import (
	"context"
	"fmt"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// RuleSets finds rule sets for the engine. It is called on every request and
// answers from memory. Only the first request for a rule set may wait until it is
// loaded or ctx ends. RuleSet returns nil for an unknown id. To change rules while
// requests run, return another rule set: an atomic pointer is enough, and
// consumption carries over. Package rules/reload does all of this.
//
// If it has a method Require(id string) error, [New] calls it with the id of
// [WithRuleSet] and fails with its error.
type RuleSets interface {
	RuleSet(ctx context.Context, id string) *Compiled
}

// Static are rule sets that never change.
func Static(sets ...*rules.Set) RuleSets {
	byID := make(staticRuleSets, len(sets))
	for _, s := range sets {
		byID[s.ID()] = Must(Compile(s))
	}
	return byID
}

type staticRuleSets map[string]*Compiled

func (m staticRuleSets) RuleSet(_ context.Context, id string) *Compiled { return m[id] }

// Missing is for [WithKnownRuleSets].
func (m staticRuleSets) Missing(id string) bool { return m[id] == nil }

// Loading reports that no rule set is being loaded.
func (staticRuleSets) Loading(string) bool { return false }

// Require is for [Engine.Require].
func (m staticRuleSets) Require(id string) error {
	if m.Missing(id) {
		return fmt.Errorf("%w: %s", ErrNoRuleSet, printable.Quote(id))
	}
	return nil
}

// Must returns the value, or panics with the error. It is for values that a
// program cannot start without.
//
//	engine := fluxgate.Must(fluxgate.New(store, rules))
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
