package rulestest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

var ruleIDChecks = []Check{
	{"a rule id that another rule set has is refused, with its place", ruleIDTaken},
	{"a rule id is free again when its rule is gone", ruleIDFreed},
	{"a rule id that many claim at once goes to one", ruleIDContested},
}

func (f *fixture) wantTaken(err error, set *fluxgate.RuleSet, places ...string) {
	f.Helper()
	var invalid *fluxgate.ValidationError
	if !errors.As(err, &invalid) {
		f.Fatalf("Put of a rule id that another rule set has: error %v, want a ValidationError", err)
	}
	if invalid.RuleSetID != set.ID() {
		f.Errorf("the error is about rule set %q, want %q", invalid.RuleSetID, set.ID())
	}
	var got []string
	for _, p := range invalid.Problems {
		got = append(got, p.Place)
	}
	if fmt.Sprint(got) != fmt.Sprint(places) {
		f.Errorf("the places of the rules whose ids are taken are %v, want %v", got, places)
	}
}

func ruleIDTaken(t testing.TB, s Subject) {
	f := newEditing(t, s)
	owner, thief := f.id("owner"), f.id("thief")
	f.put(f.setOf(owner, rule(f.id("x"), nil), rule(f.id("y"), nil)), 0)
	f.put(f.set(thief, "own"), 0)
	before := f.state(owner) + f.state(thief)
	// In the order they are evaluated: by priority.
	stolen := rule(f.id("y"), nil)
	stolen.Priority = -1
	set := f.setOf(thief, stolen, rule(thief, nil), rule(f.id("x"), nil))
	_, err := f.Editor.Put(t.Context(), set, by(1))
	want := []string{}
	i := 0
	for r := range set.Rules() {
		if r.ID != thief {
			want = append(want, fmt.Sprintf("rules[%d].id", i))
		}
		i++
	}
	f.wantTaken(err, set, want...)
	if after := f.state(owner) + f.state(thief); after != before {
		t.Errorf("a refused change has changed\n%sto\n%s", before, after)
	}
	// A rule set keeps its own, disabled or not.
	again := rule(f.id("x"), nil)
	again.Disabled = true
	f.put(f.setOf(owner, again, rule(f.id("z"), nil)), 1)
	set = f.setOf(thief, rule(f.id("x"), nil))
	_, err = f.Editor.Put(t.Context(), set, by(1))
	f.wantTaken(err, set, "rules[0].id")
}

func ruleIDFreed(t testing.TB, s Subject) {
	f := newEditing(t, s)
	first, second := f.id("first"), f.id("second")
	moving, staying := rule(f.id("moving"), nil), rule(f.id("staying"), nil)
	f.put(f.setOf(first, moving, staying), 0)
	f.put(f.setOf(first, staying), 1)
	f.put(f.setOf(second, moving), 0) // its rule was taken out
	f.delete(second, 1)
	f.put(f.setOf(first, staying, moving), 2) // its rule set was deleted

	// What is restored claims its ids like any change.
	_, err := rules.Restore(t.Context(), f.Editor, second, 1, by(0))
	f.wantTaken(err, f.setOf(second), "rules[0].id")
	// A refused change claims nothing.
	fresh := rule(f.id("fresh"), nil)
	_, err = f.Editor.Put(t.Context(), f.setOf(second, fresh, moving), by(0))
	f.wantTaken(err, f.setOf(second), "rules[1].id")
	_, err = f.Editor.Put(t.Context(), f.setOf(second, fresh), by(99))
	f.wantConflict(err, "Put based on another revision", second, 99, 0)
	f.put(f.setOf(f.id("third"), fresh), 0)
}

func ruleIDContested(t testing.TB, s Subject) {
	f := newEditing(t, s)
	editors := []rules.Editor{f.Editor, f.other()}
	const claims = 8
	for round := range 10 {
		prize := rule(f.id(fmt.Sprintf("prize-%d", round)), nil)
		sets := make([]*fluxgate.RuleSet, claims)
		for i := range sets {
			sets[i] = f.setOf(f.id(fmt.Sprintf("set-%d-%d", round, i)), prize)
		}
		errs := make([]error, claims)
		var all sync.WaitGroup
		for i := range claims {
			all.Go(func() { _, errs[i] = editors[i%2].Put(t.Context(), sets[i], by(0)) })
		}
		all.Wait()
		won := 0
		for i, err := range errs {
			switch head, known := f.head(sets[i].ID()); {
			case err == nil:
				won++
			case !isInvalid(err):
				t.Errorf("Put of a rule id that others claim: error %v, want a ValidationError", err)
			case known:
				t.Errorf("a refused change has left %+v", head)
			}
		}
		if won != 1 {
			t.Fatalf("%d of %d rule sets that were put at once got the same rule id", won, claims)
		}
	}
}
