package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// desc describes a metric of ours.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fluxgate_"+name, help, labels, nil)
}

var (
	descDecisions = desc("decisions_total",
		"Requests by rule set, what came of them, whether they were allowed, and where the binding answer came from.",
		"rule_set", "outcome", "allowed", "source")
	descRuleDecisions = desc("rule_decisions_total", "Requests by the rule that binds and what came of them.", "rule_set", "rule", "outcome")
	descShadow        = desc("shadow_rejections_total", "Requests that a shadow rule would have rejected.", "rule_set", "rule")
	descNearLimit     = desc("near_limit_total", "Allowed requests that left at most a fifth of the binding band.", "rule_set", "rule")
)

// Describe implements [prometheus.Collector].
func (t *table) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descDecisions, descRuleDecisions, descShadow, descNearLimit} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (t *table) Collect(out chan<- prometheus.Metric) {
	for _, s := range t.all() {
		s.collect(out, s != t.unknown && s != t.other)
	}
}

// collect tells what was counted. Of a rule set and a rule that have a name
// the usual outcomes are told from the start: a rate that begins with the
// first rejection would miss it.
func (s *setCounts) collect(out chan<- prometheus.Metric, named bool) {
	for o := range outcomes {
		for allowed := range s.decisions[o] {
			for from := range sources {
				n := s.decisions[o][allowed][from].Load()
				usual := from == sourceStore && (o == outcomeAllowed && allowed == 1 || o == outcomeLimited && allowed == 0)
				if n > 0 || named && usual {
					out <- counter(descDecisions, n, s.name, o.String(), strconv.FormatBool(allowed == 1), from.String())
				}
			}
		}
	}
	s.other.collect(out, s.name, false)
	for _, r := range *s.rules.Load() {
		r.collect(out, s.name, true)
	}
}

func (r *ruleCounts) collect(out chan<- prometheus.Metric, set string, named bool) {
	for o := range outcomes {
		n := r.decisions[o].Load()
		if n > 0 || named && (o == outcomeAllowed || o == outcomeLimited) {
			out <- counter(descRuleDecisions, n, set, r.name, o.String())
		}
	}
	if n := r.shadow.Load(); n > 0 {
		out <- counter(descShadow, n, set, r.name)
	}
	if n := r.nearLimit.Load(); n > 0 || named {
		out <- counter(descNearLimit, n, set, r.name)
	}
}

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}
