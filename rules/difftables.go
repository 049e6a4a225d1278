package rules

import "maps"

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
		c.value("costTables"+member(measure), treeOf(old[measure]), treeOf(now[measure]))
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
