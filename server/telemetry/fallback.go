package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
)

// WatchFallback reports the tokens of the fallback, and how many servers share the
// store.
func (m *Metrics) WatchFallback(stats func() fluxgate.FallbackStats, servers func() int) {
	for _, c := range []struct {
		name, help string
		value      func(*fluxgate.FallbackStats) int64
	}{
		{"admitted", "Tokens granted in the process while Redis was unavailable.", func(s *fluxgate.FallbackStats) int64 { return s.Admitted }},
		{"charged", "Tokens that Redis was charged after an outage.", func(s *fluxgate.FallbackStats) int64 { return s.Charged }},
		{"uncharged", "Tokens that Redis should have been charged and was not: the bucket was empty, the reply was lost, the rule has changed, or more than 100,000 buckets were in use.", func(s *fluxgate.FallbackStats) int64 { return s.Uncharged }},
	} {
		m.create.NewCounterFunc(prometheus.CounterOpts{Name: "fluxgate_fallback_" + c.name + "_tokens_total", Help: c.help}, func() float64 {
			s := stats()
			return float64(c.value(&s))
		})
	}
	m.create.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fluxgate_fallback_pending_tokens", Help: "Tokens granted in the process in buckets that Redis was not charged for yet; what refills until then is not charged.",
	}, func() float64 { return float64(stats().Pending) })
	m.create.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fluxgate_fleet_servers", Help: "Servers that share Redis, as last counted: fallback-share auto is 1 divided by it. Fewer than you run means that some do not reach Redis.",
	}, func() float64 { return float64(servers()) })
}
