package meter

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
)

var (
	descDecisions = Desc("decisions_total", "Decisions. For store-failure, allowed is true with onFailure open and false with closed; "+
		"source is where the binding result came from.", "rule_set", "outcome", "allowed", "source")
	descRuleDecisions = Desc("rule_decisions_total", "Decisions by the binding rule.", "rule_set", "rule", "outcome")
	descShadow        = Desc("shadow_rejections_total", "Requests that a shadow rule would have rejected.", "rule_set", "rule")
	descNearLimit     = Desc("near_limit_total",
		"Allowed requests that left a fifth of the binding limit or less: watch the trend over days.", "rule_set", "rule")

	descAdmitted  = Desc("fallback_admitted_tokens_total", "Tokens granted in the process while Redis was unavailable.")
	descCharged   = Desc("fallback_charged_tokens_total", "Tokens granted in the process and debited from Redis later.")
	descUncharged = Desc("fallback_uncharged_tokens_total", "Tokens granted in the process that were not debited from Redis: "+
		"the bucket was empty, the reply was lost, the rule changed, or more than 100,000 buckets were in use.")
	descLost = Desc("fallback_lost_settlements_total", "Settlements that did not reach Redis and are not sent again, "+
		"one for each rule of a receipt: more than 10,000 waited, one waited until it could change nothing, "+
		"the reply was lost, the receipt expired, or the original charge is unknown.")
	descPending = Desc("fallback_pending_tokens",
		"Tokens granted in the process and not yet debited from Redis; tokens that refill until then are not debited.")
	descPendingSettlements = Desc("fallback_pending_settlements",
		"Settlements that wait until Redis is available, one for each rule of a receipt.")
)

// Describe implements [prometheus.Collector].
func (m *Meter) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descDecisions, descRuleDecisions, descShadow, descNearLimit,
		descAdmitted, descCharged, descUncharged, descLost, descPending, descPendingSettlements,
	} {
		out <- d
	}
	for _, part := range m.parts {
		part.Describe(out)
	}
}

// Collect implements [prometheus.Collector].
func (m *Meter) Collect(out chan<- prometheus.Metric) {
	m.ruleSetTotals(func(ruleSet string, o Outcome, allowed bool, source string, n uint64) {
		out <- Counter(descDecisions, n, ruleSet, o.String(), strconv.FormatBool(allowed), source)
	})
	for _, t := range m.allRules() {
		for o := range t.counts {
			if n := t.counts[o].Load(); n > 0 || t.named && Outcome(o) <= outcomeLimited {
				out <- Counter(descRuleDecisions, n, t.RuleSet, t.Rule, Outcome(o).String())
			}
		}
		if n := t.ShadowRejected.Load(); n > 0 {
			out <- Counter(descShadow, n, t.RuleSet, t.Rule)
		}
		if n := t.NearLimit.Load(); n > 0 || t.named {
			out <- Counter(descNearLimit, n, t.RuleSet, t.Rule)
		}
	}
	if stats := m.fallback.Load(); stats != nil {
		s := (*stats)()
		out <- Counter(descAdmitted, s.Admitted)
		out <- Counter(descCharged, s.Charged)
		out <- Counter(descUncharged, s.Uncharged)
		out <- Counter(descLost, s.LostSettlements)
		out <- Gauge(descPending, float64(s.Pending))
		out <- Gauge(descPendingSettlements, float64(s.PendingSettlements))
	}
	for _, part := range m.parts {
		part.Collect(out)
	}
}

// WatchFallback reports the tokens of the fallback.
func (m *Meter) WatchFallback(stats func() fluxgate.FallbackStats) { m.fallback.Store(&stats) }
