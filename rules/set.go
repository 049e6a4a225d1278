package rules

import (
	"cmp"
	"iter"
	"slices"
)

const (
	// MaxRules is the maximum number of rules in a rule set.
	MaxRules = 10_000
)

// Set is an id and its rules, checked as a whole. It never changes: a new
// version replaces it. [Compile] compiles it for an engine.
type Set struct {
	id         string
	rules      []Rule // in the order they are evaluated
	given      []int  // the positions at which they were given
	costTables CostTables
}

// NewSet builds a set and checks its rules. The error is a [*ValidationError] with all problems.
func NewSet(id string, rules ...Rule) (*Set, error) {
	return newRuleSet(id, rules, nil, &problems{})
}

// WithRules returns a rule set with the same id and cost tables, and other rules.
func (s *Set) WithRules(rules ...Rule) (*Set, error) {
	return newRuleSet(s.id, rules, s.costTables, &problems{})
}

// WithCostTables returns a rule set with the same rules, and other cost tables.
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
	set.sort()
	return set, nil
}

// sort brings the rules into the order in which they are evaluated.
func (s *Set) sort() {
	given := s.rules
	for i := range given {
		s.given = append(s.given, i)
	}
	slices.SortFunc(s.given, func(i, j int) int {
		a, b := &given[i], &given[j]
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	s.rules = make([]Rule, len(given))
	for i, from := range s.given {
		s.rules[i] = given[from]
	}
}

// ID returns the id of the rule set.
func (s *Set) ID() string { return s.id }

// Len returns the number of rules, including disabled ones.
func (s *Set) Len() int { return len(s.rules) }

// CostTables returns a copy of the cost tables.
func (s *Set) CostTables() CostTables { return s.costTables.clone() }

// At returns rule i in evaluation order. The caller must not change it.
func (s *Set) At(i int) *Rule { return &s.rules[i] }

// Rule returns a copy of the rule with an id, if it exists.
func (s *Set) Rule(id string) (Rule, bool) {
	for i := range s.rules {
		if s.rules[i].ID == id {
			return s.rules[i].clone(), true
		}
	}
	return Rule{}, false
}

// Rules returns copies of the rules in evaluation order: by priority,
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
