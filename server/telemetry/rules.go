package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/insight"
)

// What is reported of each rule set.
var (
	descRevision = desc("rules_revision",
		"The revision in effect. If servers differ for longer than a polling interval, some cannot read the source.", "rule_set")
	descRules   = desc("rules", "Number of rules in effect.", "rule_set")
	descLoaded  = desc("rules_loaded_timestamp_seconds", "When this revision took effect.", "rule_set")
	descChecked = desc("rules_checked_timestamp_seconds", "When the source last confirmed this revision.", "rule_set")
	descError   = desc("rules_error",
		"1 while the current rules of the source are not in effect: they cannot be read, or are invalid.", "rule_set")
	descSource = desc("rules_source", "Always 1; where the rules in effect came from is in the label.", "rule_set", "source")
)

// WatchRules reports the state of the rules. interval is how often the source is
// polled, 0 if it is not: alerts on the age of the rules need it.
func (m *Metrics) WatchRules(rules *reload.Reloader, interval time.Duration) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		m.collectRules(out, rules.Status())
		if interval > 0 {
			out <- gauge(desc("rules_polling_interval_seconds", "reload.polling-interval; absent if polling is off."), interval.Seconds())
		}
		s := rules.Stats()
		out <- counter(desc("rules_looks_total", "Reads of the revisions from the source."), s.Looks)
		out <- counter(desc("rules_loads_total", "Rule sets loaded."), s.Loads)
		out <- counter(desc("rules_swaps_total", "Revisions replaced by another."), s.Swaps)
		out <- counter(desc("rules_failures_total", "Failed reads of the source."), s.Failures)
		out <- counter(desc("rules_turned_away_total",
			"Requests rejected because their rule set was not loaded yet and too many others were being loaded."), s.Turned)
		out <- counter(desc("rules_resets_total", "Resets of buckets after a rule change."), s.Resets)
		out <- counter(desc("rules_subscriptions_total", "Subscriptions to announcements."), s.Subscribed)
		messages := desc("rules_messages_total", "Announcements of rule changes.", "result")
		out <- counter(messages, s.Messages.Heard, "heard")
		out <- counter(messages, s.Messages.Unneeded, "unneeded")
		out <- counter(messages, s.Messages.Malformed, "malformed")
	}))
}

func (m *Metrics) collectRules(out chan<- prometheus.Metric, all []reload.Status) {
	bySource := map[reload.Origin]int{}
	failing := 0
	for i := range all {
		s := &all[i]
		bySource[s.Source]++
		if s.Err != nil {
			failing++
		}
		// An id without rules may be made up by a caller. The default is reported also if it does not exist.
		if s.Source != reload.FromNowhere || s.RuleSet == m.recorder.DefaultRuleSet() {
			m.collectRuleSet(out, s)
		}
	}
	sets := desc("rule_sets", "Rule sets in memory by where they came from; none counts requested ids without rules.", "source")
	for _, from := range []reload.Origin{reload.FromSource, reload.FromCopy, reload.FromNowhere} {
		out <- gauge(sets, float64(bySource[from]), string(from))
	}
	out <- gauge(desc("rule_sets_failing", "Rule sets with an error, including those without a label of their own."), float64(failing))
}

func (m *Metrics) collectRuleSet(out chan<- prometheus.Metric, s *reload.Status) {
	set := m.recorder.RuleSetLabel(s.RuleSet)
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
