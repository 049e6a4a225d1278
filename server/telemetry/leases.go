package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/store/lease"
)

// WatchLeases reports what was decided without the store.
func (m *Metrics) WatchLeases(stats func() lease.Stats) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		s := stats()
		saved := desc("lease_saved_calls_total",
			"Decisions without a call to Redis. All metrics of leases are absent with redis.leases off.", "by")
		out <- counter(saved, s.Spent, "slice")
		out <- counter(saved, s.Refused, "refusal")
		out <- counter(saved, s.Paused, "pause")
		out <- counter(desc("lease_slices_total", "Grants of local tokens by Redis; each is a call, or a part of one."), s.Slices)
		out <- counter(desc("lease_granted_tokens_total", "Local tokens that Redis has granted."), s.Granted)
		out <- counter(desc("lease_wasted_tokens_total",
			"Local tokens that were not spent in time. Compare with the granted tokens."), s.Wasted)
		out <- gauge(desc("lease_held_tokens", "Local tokens that can be spent now. They are already taken from Redis."), float64(s.Held))
		out <- gauge(desc("lease_buckets", "Buckets with local tokens that can be spent now."), float64(s.Buckets))
	}))
}
