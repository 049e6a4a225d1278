package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/rules/reload"
)

var (
	descRevision = desc("rules_revision", "Revision of the rule set that decides.", "rule_set")
	descRules    = desc("rules", "Rules of the rule set that decides.", "rule_set")
	descLoaded   = desc("rules_loaded_timestamp_seconds", "When the rule set that decides began to.", "rule_set")
	descChecked  = desc("rules_checked_timestamp_seconds", "When the source last confirmed the rule set.", "rule_set")
	descError    = desc("rules_error", "Whether the source's word is not in effect: it cannot be read, or is wrong.", "rule_set")
	descSource   = desc("rules_source", "Where the rule set that decides came from: source, copy (on disk) or none. Always 1.", "rule_set", "source")
	descSets     = desc("rule_sets", "Rule sets in memory by where they came from; none are ids that were asked for and have no rules.", "source")
	descFailing  = desc("rule_sets_failing", "Rule sets of which the source's word is not in effect.")
	descInterval = desc("rules_polling_interval_seconds", "How often the source is asked for revisions.")

	descLooks         = desc("rules_looks_total", "Times that the source was asked for revisions.")
	descLoads         = desc("rules_loads_total", "Times that a rule set was read.")
	descSwaps         = desc("rules_swaps_total", "Times that a rule set was replaced by another version.")
	descFailures      = desc("rules_failures_total", "Times that revisions or a rule set could not be read.")
	descTurned        = desc("rules_turned_away_total", "Requests for rule sets that were not in memory while too many were being loaded.")
	descResets        = desc("rules_resets_total", "Times that a change of rules reset the buckets of a rule set.")
	descSubscriptions = desc("rules_subscriptions_total", "Times that listening for announcements began.")
	descMessages      = desc("rules_messages_total", "Announcements by what became of them.", "result")
)

// WatchRules tells how it stands with the rules, read whenever it is asked
// for. every is how often the source is asked for revisions, 0 if it is not:
// only with it can anyone say that rules have not been confirmed for too long.
func (m *Metrics) WatchRules(rules *reload.Reloader, every time.Duration) error {
	return m.register(&rulesCollector{rules: rules, every: every, counts: m.counts, main: m.config.RuleSet})
}

type rulesCollector struct {
	rules  *reload.Reloader
	every  time.Duration
	counts *table
	main   string // told even if it does not exist
}

// Describe implements [prometheus.Collector].
func (c *rulesCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRevision, descRules, descLoaded, descChecked, descError, descSource, descSets, descFailing, descInterval,
		descLooks, descLoads, descSwaps, descFailures, descTurned, descResets, descSubscriptions, descMessages,
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
		// An id that has no rules is what a caller asked for.
		if s.Source != reload.FromNowhere || s.RuleSet == c.main {
			c.collect(out, &s)
		}
	}
	for _, from := range []reload.Origin{reload.FromSource, reload.FromCopy, reload.FromNowhere} {
		out <- gauge(descSets, float64(bySource[from]), string(from))
	}
	out <- gauge(descFailing, float64(failing))
	if c.every > 0 {
		out <- gauge(descInterval, c.every.Seconds())
	}
	c.collectStats(out)
}

func (c *rulesCollector) collect(out chan<- prometheus.Metric, s *reload.Status) {
	set := c.counts.set(s.RuleSet)
	if set == c.counts.other {
		return // one of too many: several would be told under one name
	}
	out <- gauge(descRevision, float64(s.Revision), set.name)
	out <- gauge(descRules, float64(s.Rules), set.name)
	out <- gauge(descError, float64(indexOf(s.Err != nil)), set.name)
	out <- gauge(descSource, 1, set.name, string(s.Source))
	if !s.LoadedAt.IsZero() {
		out <- gauge(descLoaded, seconds(s.LoadedAt), set.name)
	}
	if !s.CheckedAt.IsZero() {
		out <- gauge(descChecked, seconds(s.CheckedAt), set.name)
	}
}

func (c *rulesCollector) collectStats(out chan<- prometheus.Metric) {
	s := c.rules.Stats()
	for _, one := range []struct {
		desc *prometheus.Desc
		n    uint64
	}{
		{descLooks, s.Looks}, {descLoads, s.Loads}, {descSwaps, s.Swaps}, {descFailures, s.Failures},
		{descTurned, s.Turned}, {descResets, s.Resets}, {descSubscriptions, s.Subscribed},
	} {
		out <- counter(one.desc, one.n)
	}
	for _, one := range []struct {
		result string
		n      uint64
	}{
		{"heard", s.Messages.Heard}, {"unneeded", s.Messages.Unneeded}, {"malformed", s.Messages.Malformed},
	} {
		out <- counter(descMessages, one.n, one.result)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
