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
		{"admitted", "Tokens that the fallback granted while the store was unavailable.", func(s *fluxgate.FallbackStats) int64 { return s.Admitted }},
		{"charged", "Tokens that the store was charged after it was unavailable.", func(s *fluxgate.FallbackStats) int64 { return s.Charged }},
		{"uncharged", "Tokens that the store should have been charged and was not.", func(s *fluxgate.FallbackStats) int64 { return s.Uncharged }},
	} {
		m.create.NewCounterFunc(prometheus.CounterOpts{Name: "fluxgate_fallback_" + c.name + "_tokens_total", Help: c.help}, func() float64 {
			s := stats()
			return float64(c.value(&s))
		})
	}
	m.create.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fluxgate_fallback_pending_tokens", Help: "Tokens that the fallback granted from buckets that the store was not charged for yet.",
	}, func() float64 { return float64(stats().Pending) })
	m.create.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fluxgate_fleet_servers", Help: "Servers that share the store, as last counted.",
	}, func() float64 { return float64(servers()) })
}
