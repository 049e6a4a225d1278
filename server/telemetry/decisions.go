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
	"github.com/fluxgate/fluxgate/internal/snapshotmap"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
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
	ruleSets              snapshotmap.Map[string, string] // ids with a label of their own
	rules                 snapshotmap.Map[ruleKey, string]
	cache                 snapshotmap.Map[decisionKey, counters] // a lookup in a vector takes a lock
}

type ruleKey struct{ ruleSet, rule string }

type decisionKey struct {
	ruleSet, rule, outcome, source string
	allowed                        bool
}

// counters are those of a decision and its binding rule, with their labels.
type counters struct {
	ruleSet, rule string
	total, byRule prometheus.Counter // byRule is nil if no rule is binding
}

func newDecisions(maxRuleSets, maxRules int) *decisions {
	d := &decisions{maxRuleSets: maxRuleSets, maxRules: maxRules, perRule: prometheus.NewRegistry()}
	d.total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluxgate_decisions_total", Help: "Decisions. allowed separates store-failure that passed (open) from refused (closed); source is where the binding result came from.",
	}, []string{"rule_set", "outcome", "allowed", "source"})
	create := promauto.With(d.perRule)
	d.byRule = create.NewCounterVec(prometheus.CounterOpts{
		Name: nameRuleDecisions, Help: "Decisions by the binding rule.",
	}, []string{"rule_set", "rule", "outcome"})
	d.shadow = create.NewCounterVec(prometheus.CounterOpts{
		Name: nameShadow, Help: "Requests that a shadow rule would have rejected.",
	}, []string{"rule_set", "rule"})
	d.nearLimit = create.NewCounterVec(prometheus.CounterOpts{
		Name: nameNearLimit, Help: "Allowed requests that left a fifth of the binding band or less: watch the trend over days.",
	}, []string{"rule_set", "rule"})
	return d
}

// lookup returns the counters of a decision. The ids of the key need not have
// labels of their own.
func (c *decisions) lookup(key decisionKey) counters {
	found, ok := c.cache.Entries()[key]
	if ok {
		return found
	}
	if ruleSetExists(key.outcome) {
		found.ruleSet = c.ruleSet(key.ruleSet)
	} else {
		found.ruleSet = c.knownRuleSet(key.ruleSet)
	}
	found.total = c.total.WithLabelValues(found.ruleSet, key.outcome, strconv.FormatBool(key.allowed), key.source)
	if key.rule != "" {
		found.rule = c.rule(found.ruleSet, key.rule)
		found.byRule = c.byRule.WithLabelValues(found.ruleSet, found.rule, key.outcome)
	}
	if key.ruleSet == found.ruleSet && key.rule == found.rule { // bounded by the number of labels
		key.ruleSet, key.rule = found.ruleSet, found.rule // the memory of the request is not kept
		c.cache.Add(key, math.MaxInt, func() counters { return found })
	}
	return found
}

// knownRuleSet returns the label of a rule set that may not exist.
func (c *decisions) knownRuleSet(id string) string {
	if label, ok := c.ruleSets.Entries()[id]; ok {
		return label
	}
	return labelUnknown
}

// ruleSet returns the label of a rule set that exists. Its usual series exist
// from then on: a rate that begins with the first rejection would miss it.
func (c *decisions) ruleSet(id string) string {
	known := c.ruleSets.Entries()
	if label, ok := known[id]; ok {
		return label
	}
	if len(known) >= c.maxRuleSets || !rules.ValidID(id) || id == labelUnknown || id == labelOther {
		return labelOther
	}
	id = strings.Clone(id) // the memory of the request is not kept
	if _, ok := c.ruleSets.Add(id, c.maxRuleSets, func() string { return id }); !ok {
		return labelOther
	}
	c.total.WithLabelValues(id, outcomeAllowed, "true", "store")
	c.total.WithLabelValues(id, string(fluxgate.ReasonLimited), "false", "store")
	return id
}

// rule returns the label of a rule of a rule set, by the label of that.
func (c *decisions) rule(ruleSet, id string) string {
	known := c.rules.Entries()
	if label, ok := known[ruleKey{ruleSet, id}]; ok {
		return label
	}
	if ruleSet == labelOther || len(known) >= c.maxRules || !rules.ValidID(id) || id == labelOther {
		return labelOther
	}
	id = strings.Clone(id)
	if _, ok := c.rules.Add(ruleKey{ruleSet, id}, c.maxRules, func() string { return id }); !ok {
		return labelOther
	}
	c.byRule.WithLabelValues(ruleSet, id, outcomeAllowed)
	c.byRule.WithLabelValues(ruleSet, id, string(fluxgate.ReasonLimited))
	c.nearLimit.WithLabelValues(ruleSet, id)
	return id
}

// count counts a decision by rule set, by its binding rule, and by the shadow
// rules that would have rejected, each once.
func (c *decisions) count(ruleSet, outcome string, d *fluxgate.Decision) {
	found := c.lookup(decisionKey{ruleSet, d.RuleID, outcome, sourceOf(d), d.Allowed})
	found.total.Inc()
	if found.byRule != nil {
		found.byRule.Inc()
		if outcome == outcomeAllowed && d.Remaining <= d.Limit/5 {
			c.nearLimit.WithLabelValues(found.ruleSet, found.rule).Inc()
		}
	}
	var last *rules.Rule
	for b := range d.Bands() {
		if b.Rule == nil || b.Rule == last {
			continue
		}
		last = b.Rule
		if b.Shadow() && (b.Status == store.Rejected || b.Status == store.TooCostly) {
			c.shadow.WithLabelValues(found.ruleSet, c.rule(found.ruleSet, b.Rule.ID)).Inc()
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
