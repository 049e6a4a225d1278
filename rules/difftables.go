package rules

import (
	"encoding/json"
	"maps"
)

// WithRules returns a rule set with other rules and the cost tables of before, which
// is nil if there was no rule set.
func WithRules(before *Set, id string, all ...Rule) (*Set, error) {
	if before == nil {
		return NewSet(id, all...)
	}
	return before.WithRules(all...)
}

// diffTables compares the cost tables of two rule sets, which may be nil.
func diffTables(before, after *Set) []RuleDiff {
	old, now := tablesOf(before), tablesOf(after)
	if maps.EqualFunc(old, now, maps.Equal) {
		return nil
	}
	d := RuleDiff{Rule: DiffCostTables, Change: DiffChanged}
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

func tablesOf(set *Set) CostTables {
	if set == nil {
		return nil
	}
	return set.CostTables()
}

// models returns the weights of each model as in a document.
func models(table CostTable) (tree map[string]any) {
	_ = json.Unmarshal(raw(table), &tree) // it was just written, and weights fit a float64
	return tree
}
