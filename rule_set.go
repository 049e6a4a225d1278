package fluxgate

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/fluxgate/fluxgate/internal/match"
)

const (
	// MaxRules is how many rules one rule set may have.
	MaxRules = 10_000
	// MaxMatches is how many rules may apply to one request.
	MaxMatches = 64
)

// RuleSet is an id and its rules, checked as a whole and compiled. It never
// changes; a new version replaces it.
type RuleSet struct {
	id     string
	rules  []Rule         // in the order they are evaluated
	active []compiledRule // the enabled ones, in the same order
	byID   map[string]int // the index of each in active
	// costTables are those of the document; active rules have what they need.
	costTables CostTables
	replaces   bool // a rule has Replaces
	matcher    *match.Matcher
	token      *token // identifies the rule set without keeping it in memory
}

// token identifies a rule set by its address. It is not empty, because pointers
// to zero-size values may be equal.
type token struct{ _ byte }

// compiledRule is a rule as the engine evaluates it.
type compiledRule struct {
	*Rule
	index  int // in the rule set's active rules
	bands  []ExactBand
	quotas *quotas           // nil without
	prices map[string]*Price // by model; nil for a rule that counts requests
	slots  bool              // a band limits how many requests there are at the same time
	names  []string          // of the bands
	fields []keyField
	shadow bool
	// own is the plan of a rule that is in no rule set: see [Request.Limit].
	own *plannedRule
}

// NewRuleSet checks the rules and compiles them. If anything is wrong with
// any of them the error is a [*ValidationError] that lists all of it.
func NewRuleSet(id string, rules ...Rule) (*RuleSet, error) {
	return newRuleSet(id, rules, nil, &problems{})
}

// WithRules is a rule set with the same id and cost tables, and other rules.
func (s *RuleSet) WithRules(rules ...Rule) (*RuleSet, error) {
	return newRuleSet(s.id, rules, s.costTables, &problems{})
}

// WithCostTables is a rule set with the same rules, and other cost tables.
func (s *RuleSet) WithCostTables(tables CostTables) (*RuleSet, error) {
	return newRuleSet(s.id, s.rules, tables, &problems{})
}

// newRuleSet adds to the problems that were found while the rules were read.
func newRuleSet(id string, rules []Rule, tables CostTables, found *problems) (*RuleSet, error) {
	set := &RuleSet{id: id, token: new(token), rules: make([]Rule, len(rules)), costTables: tables.clone()}
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
	if err := set.compile(); err != nil {
		// Validation accepts only what compiles; if it ever does not, an error
		// is better than half a rule set.
		return nil, &ValidationError{RuleSetID: id, Problems: []Problem{{Code: CodeInvalidValue, Message: err.Error()}}}
	}
	return set, nil
}

func (s *RuleSet) compile() error {
	patterns := make([]match.Rule, 0, len(s.rules))
	s.byID = make(map[string]int, len(s.rules))
	for i := range s.rules {
		r := &s.rules[i]
		if r.Disabled {
			continue
		}
		c := compiledRule{Rule: r, index: len(s.active), shadow: r.Mode == ModeShadow, fields: compileFields(r)}
		for position, b := range r.Bands {
			exact, err := r.exact(b, position)
			if err != nil {
				return err
			}
			c.bands = append(c.bands, exact)
			c.slots = c.slots || isConcurrency(exact)
			c.names = append(c.names, b.Name())
		}
		var err error
		if c.quotas, err = newQuotas(r); err != nil {
			return err
		}
		s.byID[r.ID] = c.index
		s.replaces = s.replaces || len(r.Replaces) > 0
		s.active = append(s.active, c)
		patterns = append(patterns, r.matching())
	}
	s.compilePrices()
	var err error
	s.matcher, err = match.Compile(patterns)
	return err
}

// exact converts a band of the rule, or a share of it, at its position.
func (r *Rule) exact(b Band, position int) (ExactBand, error) {
	exact, err := b.Exact(position)
	if r.CountRefused {
		exact = exact.CountRefused()
	}
	return exact, err
}

// ID is the rule set's id.
func (s *RuleSet) ID() string { return s.id }

// Len is how many rules there are, disabled ones included.
func (s *RuleSet) Len() int { return len(s.rules) }

// CostTables is a copy of the cost tables.
func (s *RuleSet) CostTables() CostTables { return s.costTables.clone() }

// Rule is a copy of the rule with an id, if there is one.
func (s *RuleSet) Rule(id string) (Rule, bool) {
	for i := range s.rules {
		if s.rules[i].ID == id {
			return s.rules[i].clone(), true
		}
	}
	return Rule{}, false
}

// Rules are copies of the rules in the order they are evaluated: by priority,
// ties by id.
func (s *RuleSet) Rules() iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for _, r := range s.rules {
			if !yield(r.clone()) {
				return
			}
		}
	}
}

// RuleSets finds rule sets for the engine. It is called on every request and
// answers from memory, except for the first request for a rule set: that may
// take a while, and ends with ctx. It returns nil for an unknown id. To change
// rules while requests run, return another RuleSet: an atomic pointer is
// enough, and consumption carries over. Package rules/reload does all of this.
//
// If it has a method Require(id string) error, [New] calls it with the id of
// [WithRuleSet] and fails with its error.
type RuleSets interface {
	RuleSet(ctx context.Context, id string) *RuleSet
}

// Static are rule sets that never change.
func Static(sets ...*RuleSet) RuleSets {
	byID := make(staticRuleSets, len(sets))
	for _, s := range sets {
		byID[s.id] = s
	}
	return byID
}

type staticRuleSets map[string]*RuleSet

func (m staticRuleSets) RuleSet(_ context.Context, id string) *RuleSet { return m[id] }

// Missing is for [WithKnownRuleSets].
func (m staticRuleSets) Missing(id string) bool { return m[id] == nil }

// Loading reports that no rule set is being loaded.
func (staticRuleSets) Loading(string) bool { return false }

// Require is for [Engine.Require].
func (m staticRuleSets) Require(id string) error {
	if m.Missing(id) {
		return fmt.Errorf("%w: %s", ErrNoRuleSet, quote(id))
	}
	return nil
}
