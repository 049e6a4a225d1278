package rules

import (
	"cmp"
	"iter"
	"slices"
)

const (
	// MaxRules is how many rules one rule set may have.
	MaxRules = 10_000
)

// Set is an id and its rules, checked as a whole. It never changes; a new
// version replaces it. [Compile] makes of it what an engine evaluates.
type Set struct {
	id         string
	rules      []Rule // in the order they are evaluated
	costTables CostTables
}

// NewSet checks the rules. If anything is wrong with any of them the error is a [*ValidationError] that lists all of it.
func NewSet(id string, rules ...Rule) (*Set, error) {
	return newRuleSet(id, rules, nil, &problems{})
}

// WithRules is a rule set with the same id and cost tables, and other rules.
func (s *Set) WithRules(rules ...Rule) (*Set, error) {
	return newRuleSet(s.id, rules, s.costTables, &problems{})
}

// WithCostTables is a rule set with the same rules, and other cost tables.
func (s *Set) WithCostTables(tables CostTables) (*Set, error) {
	return newRuleSet(s.id, s.rules, tables, &problems{})
}

// newRuleSet adds to the problems that were found while the rules were read.
func newRuleSet(id string, rules []Rule, tables CostTables, found *problems) (*Set, error) {
	set := &Set{id: id, rules: make([]Rule, len(rules)), costTables: tables.clone()}
	for i, r := range rules {
		set.rules[i] = r.clone()
		if r.RuleSetID == "" {
			set.rules[i].RuleSetID = id
		}
	}
	validate(id, set.rules, found)
	validateCostTables(set.costTables, reporter{found: found}.at("costTables"))
	validateMeasures(set, reporter{found: found}.at("rules"))
	if err := found.err(id); err != nil {
		return nil, err
	}
	slices.SortFunc(set.rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	return set, nil
}

// ID is the rule set's id.
func (s *Set) ID() string { return s.id }

// Len is how many rules there are, disabled ones included.
func (s *Set) Len() int { return len(s.rules) }

// CostTables is a copy of the cost tables.
func (s *Set) CostTables() CostTables { return s.costTables.clone() }

// At is rule i of those in the order they are evaluated. It must not be changed.
func (s *Set) At(i int) *Rule { return &s.rules[i] }

// Rule is a copy of the rule with an id, if there is one.
func (s *Set) Rule(id string) (Rule, bool) {
	for i := range s.rules {
		if s.rules[i].ID == id {
			return s.rules[i].clone(), true
		}
	}
	return Rule{}, false
}

// Rules are copies of the rules in the order they are evaluated: by priority,
// ties by id.
func (s *Set) Rules() iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for _, r := range s.rules {
			if !yield(r.clone()) {
				return
			}
		}
	}
}
