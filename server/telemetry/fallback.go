package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
)

// WatchFallback reports the tokens of the fallback, and how many servers share the
// store, 0 if unknown.
func (m *Metrics) WatchFallback(stats func() fluxgate.FallbackStats, servers func() int) {
	m.meter.WatchFallback(stats)
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		if n := servers(); n > 0 {
			out <- meter.Gauge(meter.Desc("fleet_servers",
				"Servers that share Redis: the last count, or an assumption before the first count. "+
					"fallback-share auto is 1 divided by it. If it is lower than the servers that you run, some do not reach Redis. "+
					"Absent while unknown."), float64(n))
		}
	}))
}
