package rulestest

import (
	"testing"
)

var ruleIDChecks = []Check{
	{"rule sets may have rules with the same id", sameRuleIDs},
}

// sameRuleIDs changes two rule sets with common rule ids independently.
func sameRuleIDs(t testing.TB, s Subject) {
	f := newFixture(t, s)
	one, other, shared := f.id("one"), f.id("other"), f.id("shared")
	first, second := rule(shared, map[string]any{"mark": "first"}), rule(shared, map[string]any{"mark": "second"})
	f.write(f.setOf(one, first))
	f.write(f.setOf(other, second, rule(f.id("more"), nil)))
	f.write(f.setOf(one, first, rule(f.id("more"), nil))) // both ids are shared now
	kept := f.document(f.load(f.Source, other).RuleSet)
	f.write(f.setOf(one, rule(f.id("more"), nil))) // only one is
	f.write(f.setOf(one, first))
	f.remove(one)
	if got := f.document(f.load(f.Source, other).RuleSet); got != kept {
		t.Errorf("changes of a rule set with the same rule ids have changed\n%s\nto\n%s", kept, got)
	}
	f.write(f.setOf(one, second))
	if got := markOf(f.load(f.Source, one).RuleSet); got != "second" {
		t.Errorf("the shared rule of one rule set has the mark %q", got)
	}
}
