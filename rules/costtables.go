package rules

import (
	"encoding/json"
	"maps"

	"github.com/fluxgate/fluxgate"
)

// WithRules returns a rule set with other rules and the cost tables of before, which
// is nil if there was no rule set.
func WithRules(before *fluxgate.RuleSet, id string, all ...fluxgate.Rule) (*fluxgate.RuleSet, error) {
	if before == nil {
		return fluxgate.NewRuleSet(id, all...)
	}
	return before.WithRules(all...)
}

// diffTables compares the cost tables of two rule sets, which may be nil.
func diffTables(before, after *fluxgate.RuleSet) []RuleDiff {
	old, now := tablesOf(before), tablesOf(after)
	if maps.EqualFunc(old, now, maps.Equal) {
		return nil
	}
	d := RuleDiff{Rule: CostTables, Change: DiffChanged}
	if len(old) == 0 {
		d.Change = DiffAdded
	} else if len(now) == 0 {
		d.Change = DiffRemoved
	}
	var c comparison
	for _, measure := range names(old, now) {
		c.tree("costTables"+member(measure), models(old[measure]), models(now[measure]))
	}
	d.Fields = c
	return []RuleDiff{d}
}

func tablesOf(set *fluxgate.RuleSet) fluxgate.CostTables {
	if set == nil {
		return nil
	}
	return set.CostTables()
}

// models returns the weights of each model as in a document.
func models(table fluxgate.CostTable) (tree map[string]any) {
	_ = json.Unmarshal(raw(table), &tree) // it was just written, and weights fit a float64
	return tree
}
