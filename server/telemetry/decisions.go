package telemetry

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/insight"
)

var (
	descDecisions = desc("decisions_total", "Decisions. For store-failure, allowed is true with onFailure open and false with closed; "+
		"source is where the binding result came from.", "rule_set", "outcome", "allowed", "source")
	descRuleDecisions = desc("rule_decisions_total", "Decisions by the binding rule.", "rule_set", "rule", "outcome")
	descShadow        = desc("shadow_rejections_total", "Requests that a shadow rule would have rejected.", "rule_set", "rule")
	descNearLimit     = desc("near_limit_total",
		"Allowed requests that left a fifth of the binding limit or less: watch the trend over days.", "rule_set", "rule")
)

// collectDecisions reports what the recorder has counted.
func (m *Metrics) collectDecisions(out chan<- prometheus.Metric) {
	m.recorder.RuleSetTotals(func(ruleSet string, o insight.Outcome, allowed bool, source string, n uint64) {
		out <- counter(descDecisions, n, ruleSet, o.String(), strconv.FormatBool(allowed), source)
	})
	for _, t := range m.recorder.RuleTotals() {
		t.Decisions(func(o insight.Outcome, n uint64) {
			out <- counter(descRuleDecisions, n, t.RuleSet, t.Rule, o.String())
		})
		if n := t.ShadowRejected.Load(); n > 0 {
			out <- counter(descShadow, n, t.RuleSet, t.Rule)
		}
		if n := t.NearLimit.Load(); n > 0 || t.Named() {
			out <- counter(descNearLimit, n, t.RuleSet, t.Rule)
		}
	}
}

// RuleCounters returns how often the rules of a rule set have decided, by id.
// Rules without a label of their own are counted under other.
func (m *Metrics) RuleCounters(ruleSet string) (all []admin.Counter) {
	for _, t := range m.recorder.RuleTotals() {
		of := admin.Counter{
			Rule: t.Rule, Decisions: map[string]uint64{}, ShadowRejected: t.ShadowRejected.Load(), NearLimit: t.NearLimit.Load(),
		}
		t.Decisions(func(o insight.Outcome, n uint64) {
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
