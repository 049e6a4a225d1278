package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/rules/reload"
)

// What is reported of each rule set.
var (
	descRevision = meter.Desc("rules_revision",
		"The revision in effect. If servers differ for longer than a polling interval, some cannot read the source.", "rule_set")
	descRules   = meter.Desc("rules", "Number of rules in effect.", "rule_set")
	descLoaded  = meter.Desc("rules_loaded_timestamp_seconds", "When this revision took effect.", "rule_set")
	descChecked = meter.Desc("rules_checked_timestamp_seconds", "When the source last confirmed this revision.", "rule_set")
	descError   = meter.Desc("rules_error",
		"1 while the current rules of the source are not in effect: they cannot be read, or are invalid.", "rule_set")
	descSource = meter.Desc("rules_source", "Always 1; where the rules in effect came from is in the label.", "rule_set", "source")
)

// WatchRules reports the state of the rules. interval is how often the source is
// polled, 0 if it is not: alerts on the age of the rules need it.
func (m *Metrics) WatchRules(rules *reload.Reloader, interval time.Duration) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		m.collectRules(out, rules.Status())
		if interval > 0 {
			out <- meter.Gauge(meter.Desc("rules_polling_interval_seconds", "reload.polling-interval; absent if polling is off."),
				interval.Seconds())
		}
		s := rules.Stats()
		out <- meter.Counter(meter.Desc("rules_looks_total", "Reads of the revisions from the source."), s.Looks)
		out <- meter.Counter(meter.Desc("rules_loads_total", "Rule sets loaded."), s.Loads)
		out <- meter.Counter(meter.Desc("rules_swaps_total", "Revisions replaced by another."), s.Swaps)
		out <- meter.Counter(meter.Desc("rules_failures_total", "Failed reads of the source."), s.Failures)
		out <- meter.Counter(meter.Desc("rules_turned_away_total",
			"Requests rejected because their rule set was not loaded yet and too many others were being loaded."), s.Turned)
		out <- meter.Counter(meter.Desc("rules_resets_total", "Resets of buckets after a rule change."), s.Resets)
		out <- meter.Counter(meter.Desc("rules_subscriptions_total", "Subscriptions to announcements."), s.Subscribed)
		messages := meter.Desc("rules_messages_total", "Announcements of rule changes.", "result")
		out <- meter.Counter(messages, s.Messages.Heard, "heard")
		out <- meter.Counter(messages, s.Messages.Unneeded, "unneeded")
		out <- meter.Counter(messages, s.Messages.Malformed, "malformed")
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
		if s.Source != reload.FromNowhere || s.RuleSet == m.config.RuleSet {
			m.collectRuleSet(out, s)
		}
	}
	sets := meter.Desc("rule_sets", "Rule sets in memory by where they came from; none counts requested ids without rules.", "source")
	for _, from := range []reload.Origin{reload.FromSource, reload.FromCopy, reload.FromNowhere} {
		out <- meter.Gauge(sets, float64(bySource[from]), string(from))
	}
	out <- meter.Gauge(meter.Desc("rule_sets_failing", "Rule sets with an error, including those without a label of their own."),
		float64(failing))
}

func (m *Metrics) collectRuleSet(out chan<- prometheus.Metric, s *reload.Status) {
	set := m.meter.RuleSetLabel(s.RuleSet)
	if set == meter.Other {
		return // several rule sets would have one label
	}
	out <- meter.Gauge(descRevision, float64(s.Revision), set)
	out <- meter.Gauge(descRules, float64(s.Rules), set)
	out <- meter.Gauge(descError, boolValue(s.Err != nil), set)
	out <- meter.Gauge(descSource, 1, set, string(s.Source))
	if !s.LoadedAt.IsZero() {
		out <- meter.Gauge(descLoaded, seconds(s.LoadedAt), set)
	}
	if !s.CheckedAt.IsZero() {
		out <- meter.Gauge(descChecked, seconds(s.CheckedAt), set)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
