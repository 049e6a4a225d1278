package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
)

// WatchFallback reports the tokens of the fallback, and how many servers share the
// store, 0 if unknown.
func (m *Metrics) WatchFallback(stats func() fluxgate.FallbackStats, servers func() int) {
	for _, c := range []struct {
		name, help string
		value      func(*fluxgate.FallbackStats) int64
	}{
		{"admitted_tokens", "Tokens granted in the process while Redis was unavailable.", func(s *fluxgate.FallbackStats) int64 { return s.Admitted }},
		{"charged_tokens", "Tokens that Redis was charged after an outage.", func(s *fluxgate.FallbackStats) int64 { return s.Charged }},
		{"uncharged_tokens", "Tokens that Redis should have been charged and was not: the bucket was empty, the reply was lost, the rule has changed, or more than 100,000 buckets were in use.", func(s *fluxgate.FallbackStats) int64 { return s.Uncharged }},
		{"lost_settlements", "Settlements that did not reach Redis and are not sent again: more than 10,000 waited, the reply was lost, or it is not known any more what Redis was charged.", func(s *fluxgate.FallbackStats) int64 { return s.LostSettlements }},
	} {
		m.create.NewCounterFunc(prometheus.CounterOpts{Name: "fluxgate_fallback_" + c.name + "_total", Help: c.help}, func() float64 {
			s := stats()
			return float64(c.value(&s))
		})
	}
	m.create.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fluxgate_fallback_pending_tokens", Help: "Tokens granted in the process in buckets that Redis was not charged for yet; what refills until then is not charged.",
	}, func() float64 { return float64(stats().Pending) })
	m.create.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fluxgate_fallback_pending_settlements", Help: "Settlements that wait until Redis is available.",
	}, func() float64 { return float64(stats().PendingSettlements) })
	m.registry.MustRegister(serversCollector(servers))
}

var descServers = desc("fleet_servers", "Servers that share Redis, as last counted, or as assumed before: fallback-share auto is 1 divided by it. Fewer than you run means that some do not reach Redis. Absent while it is unknown.")

// serversCollector returns how many servers share Redis, 0 if unknown.
type serversCollector func() int

// Describe implements [prometheus.Collector].
func (serversCollector) Describe(out chan<- *prometheus.Desc) { out <- descServers }

// Collect implements [prometheus.Collector].
func (c serversCollector) Collect(out chan<- prometheus.Metric) {
	if n := c(); n > 0 {
		out <- gauge(descServers, float64(n))
	}
}
