package telemetry

import (
	"cmp"
	"slices"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/meter"
)

// RuleCounters returns how often the rules of a rule set have decided, by id.
// Rules without a label of their own are counted under other.
func (m *Metrics) RuleCounters(ruleSet string) (all []admin.Counter) {
	for _, t := range m.meter.RuleTotals() {
		of := admin.Counter{
			Rule: t.Rule, Decisions: map[string]uint64{}, ShadowRejected: t.ShadowRejected.Load(), NearLimit: t.NearLimit.Load(),
		}
		t.Decisions(func(o meter.Outcome, n uint64) {
			if n > 0 {
				of.Decisions[o.String()] = n
			}
		})
		if t.RuleSet == ruleSet && (len(of.Decisions) > 0 || of.ShadowRejected > 0) {
			all = append(all, of)
		}
	}
	slices.SortFunc(all, func(a, b admin.Counter) int { return cmp.Compare(a.Rule, b.Rule) })
	return all
}
