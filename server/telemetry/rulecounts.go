package telemetry

import (
	"cmp"
	"slices"
)

// RuleCounts is how often one rule was the one that binds.
type RuleCounts struct {
	Rule string
	// Outcomes has those that happened, by name.
	Outcomes map[string]uint64
	// Shadow is how many requests it would have rejected, NearLimit how many
	// left at most a fifth of its band.
	Shadow, NearLimit uint64
}

// RuleCounts are the counts of the rules of a rule set that have decided, by
// id. A rule for which there was no room is under other.
func (m *Metrics) RuleCounts(ruleSet string) []RuleCounts {
	set := (*m.counts.sets.Load())[ruleSet]
	if set == nil {
		return nil
	}
	all := []RuleCounts{}
	add := func(r *ruleCounts) {
		c := RuleCounts{Rule: r.name, Outcomes: map[string]uint64{}, Shadow: r.shadow.Load(), NearLimit: r.nearLimit.Load()}
		for o := range outcomes {
			if n := r.decisions[o].Load(); n > 0 {
				c.Outcomes[o.String()] = n
			}
		}
		if len(c.Outcomes) > 0 || c.Shadow > 0 {
			all = append(all, c)
		}
	}
	add(set.other)
	for _, r := range *set.rules.Load() {
		add(r)
	}
	slices.SortFunc(all, func(a, b RuleCounts) int { return cmp.Compare(a.Rule, b.Rule) })
	return all
}
