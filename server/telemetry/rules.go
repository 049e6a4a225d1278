package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/insight"
)

// desc describes a metric.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fluxgate_"+name, help, labels, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

var (
	descRevision = desc("rules_revision", "The revision in effect. If servers differ for longer than a polling interval, some cannot read the source.", "rule_set")
	descRules    = desc("rules", "Number of rules in effect.", "rule_set")
	descLoaded   = desc("rules_loaded_timestamp_seconds", "When this revision took effect.", "rule_set")
	descChecked  = desc("rules_checked_timestamp_seconds", "When the source last confirmed this revision.", "rule_set")
	descError    = desc("rules_error", "1 while the current rules of the source are not in effect: they cannot be read, or are invalid.", "rule_set")
	descSource   = desc("rules_source", "Always 1; where the rules in effect came from is in the label.", "rule_set", "source")
	descSets     = desc("rule_sets", "Rule sets in memory by where they came from; none counts requested ids without rules.", "source")
	descFailing  = desc("rule_sets_failing", "Rule sets with an error, including those without a label of their own.")
	descInterval = desc("rules_polling_interval_seconds", "reload.polling-interval; absent if polling is off.")
)

// WatchRules reports the state of the rules. interval is how often the source is
// polled, 0 if it is not: alerts on the age of the rules need it.
func (m *Metrics) WatchRules(rules *reload.Reloader, interval time.Duration) {
	m.registry.MustRegister(&rulesCollector{rules: rules, interval: interval, recorder: m.recorder})
	for _, c := range []struct {
		name, help string
		labels     prometheus.Labels
		value      func(*reload.Stats) uint64
	}{
		{"looks", "Reads of the revisions from the source.", nil, func(s *reload.Stats) uint64 { return s.Looks }},
		{"loads", "Rule sets loaded.", nil, func(s *reload.Stats) uint64 { return s.Loads }},
		{"swaps", "Revisions replaced by another.", nil, func(s *reload.Stats) uint64 { return s.Swaps }},
		{"failures", "Failed reads of the source.", nil, func(s *reload.Stats) uint64 { return s.Failures }},
		{"turned_away", "Requests turned away because their rule set was not loaded yet and too many others were being loaded.", nil, func(s *reload.Stats) uint64 { return s.Turned }},
		{"resets", "Resets of buckets after a rule change.", nil, func(s *reload.Stats) uint64 { return s.Resets }},
		{"subscriptions", "Subscriptions to announcements.", nil, func(s *reload.Stats) uint64 { return s.Subscribed }},
		{"messages", helpMessages, prometheus.Labels{"result": "heard"}, func(s *reload.Stats) uint64 { return s.Messages.Heard }},
		{"messages", helpMessages, prometheus.Labels{"result": "unneeded"}, func(s *reload.Stats) uint64 { return s.Messages.Unneeded }},
		{"messages", helpMessages, prometheus.Labels{"result": "malformed"}, func(s *reload.Stats) uint64 { return s.Messages.Malformed }},
	} {
		m.create.NewCounterFunc(prometheus.CounterOpts{Name: "fluxgate_rules_" + c.name + "_total", Help: c.help, ConstLabels: c.labels}, func() float64 {
			stats := rules.Stats()
			return float64(c.value(&stats))
		})
	}
}

const helpMessages = "Announcements of rule changes."

type rulesCollector struct {
	rules    *reload.Reloader
	interval time.Duration
	recorder *insight.Recorder
}

// Describe implements [prometheus.Collector].
func (c *rulesCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRevision, descRules, descLoaded, descChecked, descError, descSource, descSets, descFailing, descInterval,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *rulesCollector) Collect(out chan<- prometheus.Metric) {
	bySource := map[reload.Origin]int{}
	failing := 0
	for _, s := range c.rules.Status() {
		bySource[s.Source]++
		if s.Err != nil {
			failing++
		}
		// An id without rules may be made up by a caller.
		if s.Source != reload.FromNowhere || s.RuleSet == c.recorder.DefaultRuleSet() { // reported even if it does not exist
			c.collect(out, &s)
		}
	}
	for _, from := range []reload.Origin{reload.FromSource, reload.FromCopy, reload.FromNowhere} {
		out <- gauge(descSets, float64(bySource[from]), string(from))
	}
	out <- gauge(descFailing, float64(failing))
	if c.interval > 0 {
		out <- gauge(descInterval, c.interval.Seconds())
	}
}

func (c *rulesCollector) collect(out chan<- prometheus.Metric, s *reload.Status) {
	set := c.recorder.RuleSetLabel(s.RuleSet)
	if set == insight.Other {
		return // several rule sets would have one label
	}
	out <- gauge(descRevision, float64(s.Revision), set)
	out <- gauge(descRules, float64(s.Rules), set)
	out <- gauge(descError, boolValue(s.Err != nil), set)
	out <- gauge(descSource, 1, set, string(s.Source))
	if !s.LoadedAt.IsZero() {
		out <- gauge(descLoaded, seconds(s.LoadedAt), set)
	}
	if !s.CheckedAt.IsZero() {
		out <- gauge(descChecked, seconds(s.CheckedAt), set)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
