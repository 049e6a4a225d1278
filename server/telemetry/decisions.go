package telemetry

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
)

const (
	nameRuleDecisions = "fluxgate_rule_decisions_total"
	nameShadow        = "fluxgate_shadow_rejections_total"
	nameNearLimit     = "fluxgate_near_limit_total"
)

// decisions counts requests by rule set and by rule.
type decisions struct {
	total, byRule, shadow, nearLimit *prometheus.CounterVec
	perRule                          *prometheus.Registry // the metrics that have a label rule

	maxRuleSets, maxRules int
	ruleSets              snapshotMap[string, string] // ids with a label of their own
	rules                 snapshotMap[ruleKey, string]
	// The counters of total and byRule again: a lookup there takes a lock.
	totals  snapshotMap[totalKey, prometheus.Counter]
	byRules snapshotMap[ruleKey, prometheus.Counter]
}

type totalKey struct {
	ruleSet, outcome, source string
	allowed                  bool
}

// ruleKey is a rule, and an outcome where it is for a counter.
type ruleKey struct{ ruleSet, rule, outcome string }

func newDecisions(maxRuleSets, maxRules int) *decisions {
	d := &decisions{maxRuleSets: maxRuleSets, maxRules: maxRules, perRule: prometheus.NewRegistry()}
	d.total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluxgate_decisions_total", Help: "Requests by rule set, outcome, whether they were allowed, and where the binding answer came from.",
	}, []string{"rule_set", "outcome", "allowed", "source"})
	create := promauto.With(d.perRule)
	d.byRule = create.NewCounterVec(prometheus.CounterOpts{
		Name: nameRuleDecisions, Help: "Requests by the binding rule and outcome.",
	}, []string{"rule_set", "rule", "outcome"})
	d.shadow = create.NewCounterVec(prometheus.CounterOpts{
		Name: nameShadow, Help: "Requests that a shadow rule would have rejected.",
	}, []string{"rule_set", "rule"})
	d.nearLimit = create.NewCounterVec(prometheus.CounterOpts{
		Name: nameNearLimit, Help: "Allowed requests that left at most a fifth of the binding band.",
	}, []string{"rule_set", "rule"})
	return d
}

// count counts a request.
func (c *decisions) count(ruleSet, outcome string, allowed bool, source string) {
	key := totalKey{ruleSet, outcome, source, allowed}
	counter, ok := c.totals.entries()[key]
	if !ok {
		counter, _ = c.totals.add(key, math.MaxInt, func() prometheus.Counter {
			return c.total.WithLabelValues(ruleSet, outcome, strconv.FormatBool(allowed), source)
		})
	}
	counter.Inc()
}

// countRule counts a request by its binding rule.
func (c *decisions) countRule(ruleSet, rule, outcome string) {
	key := ruleKey{ruleSet, rule, outcome}
	counter, ok := c.byRules.entries()[key]
	if !ok {
		counter, _ = c.byRules.add(key, math.MaxInt, func() prometheus.Counter { return c.byRule.WithLabelValues(ruleSet, rule, outcome) })
	}
	counter.Inc()
}

// knownRuleSet returns the label of a rule set that may not exist.
func (c *decisions) knownRuleSet(id string) string {
	if label, ok := c.ruleSets.entries()[id]; ok {
		return label
	}
	return labelUnknown
}

// ruleSet returns the label of a rule set that exists. Its usual series exist
// from then on: a rate that begins with the first rejection would miss it.
func (c *decisions) ruleSet(id string) string {
	known := c.ruleSets.entries()
	if label, ok := known[id]; ok {
		return label
	}
	if len(known) >= c.maxRuleSets || !fluxgate.ValidID(id) || id == labelUnknown || id == labelOther {
		return labelOther
	}
	id = strings.Clone(id) // the memory of the request is not kept
	if _, ok := c.ruleSets.add(id, c.maxRuleSets, func() string { return id }); !ok {
		return labelOther
	}
	c.total.WithLabelValues(id, outcomeAllowed, "true", "store")
	c.total.WithLabelValues(id, string(fluxgate.ReasonLimited), "false", "store")
	return id
}

// rule returns the label of a rule of a rule set, by the label of that.
func (c *decisions) rule(ruleSet, id string) string {
	known := c.rules.entries()
	if label, ok := known[ruleKey{ruleSet: ruleSet, rule: id}]; ok {
		return label
	}
	if ruleSet == labelOther || len(known) >= c.maxRules || !fluxgate.ValidID(id) || id == labelOther {
		return labelOther
	}
	id = strings.Clone(id)
	if _, ok := c.rules.add(ruleKey{ruleSet: ruleSet, rule: id}, c.maxRules, func() string { return id }); !ok {
		return labelOther
	}
	c.byRule.WithLabelValues(ruleSet, id, outcomeAllowed)
	c.byRule.WithLabelValues(ruleSet, id, string(fluxgate.ReasonLimited))
	c.nearLimit.WithLabelValues(ruleSet, id)
	return id
}

// countRules counts the binding rule of a decision, and the shadow rules that
// would have rejected, each once.
func (c *decisions) countRules(ruleSet, outcome string, d *fluxgate.Decision) {
	if d.RuleID != "" {
		rule := c.rule(ruleSet, d.RuleID)
		c.countRule(ruleSet, rule, outcome)
		if outcome == outcomeAllowed && d.Remaining <= d.Limit/5 {
			c.nearLimit.WithLabelValues(ruleSet, rule).Inc()
		}
	}
	var last *fluxgate.Rule
	for b := range d.Bands() {
		if b.Rule == nil || b.Rule == last {
			continue
		}
		last = b.Rule
		if b.Shadow() && (b.Status == fluxgate.Rejected || b.Status == fluxgate.TooCostly) {
			c.shadow.WithLabelValues(ruleSet, c.rule(ruleSet, b.Rule.ID)).Inc()
		}
	}
}

// RuleCounters returns how often the rules of a rule set have decided, by id.
// Rules without a label of their own are counted under other.
func (m *Metrics) RuleCounters(ruleSet string) []admin.Counter {
	byRule := map[string]*admin.Counter{}
	families, _ := m.decisions.perRule.Gather() // counters: never fails
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			n, rule := uint64(metric.GetCounter().GetValue()), labels["rule"]
			if n == 0 || labels["rule_set"] != ruleSet {
				continue
			}
			if byRule[rule] == nil {
				byRule[rule] = &admin.Counter{Rule: rule, Decisions: map[string]uint64{}}
			}
			switch family.GetName() {
			case nameRuleDecisions:
				byRule[rule].Decisions[labels["outcome"]] = n
			case nameShadow:
				byRule[rule].ShadowRejected = n
			case nameNearLimit:
				byRule[rule].NearLimit = n
			}
		}
	}
	var all []admin.Counter
	for _, counter := range byRule {
		all = append(all, *counter)
	}
	slices.SortFunc(all, func(a, b admin.Counter) int { return cmp.Compare(a.Rule, b.Rule) })
	return all
}
