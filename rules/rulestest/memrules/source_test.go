package memrules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// subject has a source of its own.
func subject(changes int) rulestest.Subject {
	source := memrules.New(memrules.Config{})
	return rulestest.Subject{
		Editor: source, RestoreAll: true, Changes: changes,
		Open: func(testing.TB) rules.Editor { return source },
	}
}

func TestConformance(t *testing.T) {
	rulestest.Run(t, func(testing.TB) rulestest.Subject { return subject(100) })
}

// Fifty writers make a thousand changes, and each of the revisions can be restored.
func TestConformance_FiftyWriters_NoRace(t *testing.T) {
	const concurrentWriters = "concurrent writers lose no change"
	for _, c := range rulestest.Checks() {
		if strings.HasPrefix(c.Name, concurrentWriters) {
			c.Run(t, subject(1_000))
			return
		}
	}
	t.Errorf("no check is named %q", concurrentWriters)
}

// The suite passes with a short history.
func TestConformance_ShortHistory(t *testing.T) {
	for _, c := range rulestest.Checks() {
		if strings.HasPrefix(c.Name, "a rule set can be as long") {
			continue // takes seconds and does not depend on the history
		}
		t.Run(c.Name, func(t *testing.T) {
			source := memrules.New(memrules.Config{History: 20, HistoryBytes: 256 << 10})
			c.Run(t, rulestest.Subject{Editor: source, History: 20, HistoryBytes: 256 << 10, Changes: 100})
		})
	}
}

func set(t *testing.T, id string, attributes map[string]any) *rules.Set {
	t.Helper()
	s, err := rules.NewSet(id, rules.Rule{
		ID: id, Bands: []rules.Band{rules.PerMinute(1)}, Attributes: attributes,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *memrules.Source, set *rules.Set, base int64) {
	t.Helper()
	if _, err := s.Put(t.Context(), set, rules.Change{Base: base, Author: "ada"}); err != nil {
		t.Fatal(err)
	}
}

// A caller cannot change what was put.
func TestPut_CallerKeepsRuleSet(t *testing.T) {
	s := memrules.New(memrules.Config{})
	shared := []string{"a", "b"} // a list that a rule set does not copy
	put(t, s, set(t, "api", map[string]any{"list": shared}), 0)
	shared[0] = "changed"
	v, err := s.Load(t.Context(), "api")
	if err != nil {
		t.Fatal(err)
	}
	for r := range v.RuleSet.Rules() {
		if got := fmt.Sprint(r.Attributes["list"]); got != "[a b]" {
			t.Errorf("the list that was put as [a b] is %s", got)
		}
	}
}

// A nil rule set is refused.
func TestPut_NoRuleSet(t *testing.T) {
	s := memrules.New(memrules.Config{})
	var invalid *rules.ValidationError
	if _, err := s.Put(t.Context(), nil, rules.Change{Author: "ada"}); !errors.As(err, &invalid) {
		t.Errorf("Put of nothing: error %v, want a ValidationError", err)
	}
}

// Changes have the time of the configured clock.
func TestConfig_Now(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 1, time.FixedZone("", 3600))
	s := memrules.New(memrules.Config{Now: func() time.Time { return now }})
	put(t, s, set(t, "api", nil), 0)
	v, err := s.Load(t.Context(), "api")
	if err != nil {
		t.Fatal(err)
	}
	if v.At != now.UTC() {
		t.Errorf("dated %v, want %v", v.At, now.UTC())
	}
}

// There are at most MaxRuleSets rule sets.
func TestConfig_MaxRuleSets(t *testing.T) {
	s := memrules.New(memrules.Config{MaxRuleSets: 2})
	put(t, s, set(t, "a", nil), 0)
	put(t, s, set(t, "b", nil), 0)
	if _, err := s.Delete(t.Context(), "b", rules.Change{Base: 1, Author: "ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), set(t, "c", nil), rules.Change{Author: "ada"}); err == nil {
		t.Error("a third rule set was put, at most two can be, deleted ones included")
	}
	put(t, s, set(t, "b", nil), 0)
	put(t, s, set(t, "a", nil), 1)
}

// A page of the history is bounded.
func TestHistory_PageSize(t *testing.T) {
	s := memrules.New(memrules.Config{History: 2 * rules.MaxPage})
	for i := range int64(rules.MaxPage + 10) {
		put(t, s, set(t, "api", nil), i)
		put(t, s, set(t, fmt.Sprintf("set-%d", i), nil), 0)
	}
	for _, limit := range []int{0, -1, rules.MaxPage, rules.MaxPage + 1} {
		history, err := s.History(t.Context(), "api", 0, limit)
		if err != nil || len(history) != rules.MaxPage {
			t.Errorf("History with a limit of %d has %d entries (error %v)", limit, len(history), err)
		}
		list, err := s.List(t.Context(), "", limit)
		if err != nil || len(list) != rules.MaxPage {
			t.Errorf("List with a limit of %d has %d entries (error %v)", limit, len(list), err)
		}
	}
}

func TestConformance_Overrides(t *testing.T) {
	rulestest.RunOverrides(t, func(testing.TB) rulestest.Subject {
		return rulestest.Subject{Overrides: memrules.New(memrules.Config{}), Changes: 500}
	})
}
