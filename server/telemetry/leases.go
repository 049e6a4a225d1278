package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/store/lease"
)

// WatchLeases reports what was decided without the store.
func (m *Metrics) WatchLeases(stats func() lease.Stats) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		s := stats()
		saved := meter.Desc("lease_saved_calls_total",
			"Decisions without a call to Redis. All metrics of leases are absent with redis.leases off.", "by")
		out <- meter.Counter(saved, s.Spent, "slice")
		out <- meter.Counter(saved, s.Refused, "refusal")
		out <- meter.Counter(saved, s.Paused, "pause")
		out <- meter.Counter(meter.Desc("lease_slices_total", "Grants of local tokens by Redis; each is a call, or a part of one."),
			s.Slices)
		out <- meter.Counter(meter.Desc("lease_granted_tokens_total", "Local tokens that Redis has granted."), s.Granted)
		out <- meter.Counter(meter.Desc("lease_wasted_tokens_total",
			"Local tokens that were not spent in time. Compare with the granted tokens."), s.Wasted)
		out <- meter.Gauge(meter.Desc("lease_held_tokens", "Local tokens that can be spent now. They are already taken from Redis."),
			float64(s.Held))
		out <- meter.Gauge(meter.Desc("lease_buckets", "Buckets with local tokens that can be spent now."), float64(s.Buckets))
	}))
}
