package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/store/lease"
)

var (
	descSavedCalls = desc("lease_saved_calls_total",
		"Decisions without a call of Redis. All metrics of leases are absent with redis.leases off.", "by")
	descSlices        = desc("lease_slices_total", "Grants of local tokens by Redis; each is a call, or a part of one.")
	descGrantedTokens = desc("lease_granted_tokens_total", "Local tokens that Redis has granted.")
	descWastedTokens  = desc("lease_wasted_tokens_total",
		"Local tokens that were not spent in time: a large share of the granted ones is worth a look.")
	descHeldTokens    = desc("lease_held_tokens", "Tokens that can be spent now; they are taken from Redis already.")
	descLeasedBuckets = desc("lease_buckets", "Buckets with tokens that can be spent now.")
)

// WatchLeases reports what was decided without the store.
func (m *Metrics) WatchLeases(stats func() lease.Stats) {
	m.watch(func(out chan<- prometheus.Metric) {
		s := stats()
		out <- counter(descSavedCalls, s.Spent, "slice")
		out <- counter(descSavedCalls, s.Refused, "refusal")
		out <- counter(descSavedCalls, s.Paused, "pause")
		out <- counter(descSlices, s.Slices)
		out <- counter(descGrantedTokens, s.Granted)
		out <- counter(descWastedTokens, s.Wasted)
		out <- gauge(descHeldTokens, float64(s.Held))
		out <- gauge(descLeasedBuckets, float64(s.Buckets))
	}, descSavedCalls, descSlices, descGrantedTokens, descWastedTokens, descHeldTokens, descLeasedBuckets)
}
