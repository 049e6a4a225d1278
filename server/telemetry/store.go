package telemetry

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

var (
	descNodeUp = meter.Desc("store_node_up",
		"0 if the breaker of a Redis server is open or too many of its recent decisions failed, for any reason.", "node")
	descNodeLatency = meter.Desc("store_node_latency_seconds", "How long a Redis server took to answer INFO.", "node")
	descBreakerOpen = meter.Desc("store_breaker_open", "1 while a Redis server does not answer and is only probed.", "node")
)

const (
	probeTimeout = 2 * time.Second
	maxNodes     = 1_000
)

// WatchStore reports the health of the store at every scrape.
func (m *Metrics) WatchStore(health func(context.Context) redisstore.Health) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		collectStore(out, health(ctx))
	}))
}

func collectStore(out chan<- prometheus.Metric, h redisstore.Health) {
	out <- meter.Gauge(meter.Desc("store_up",
		"1 if every Redis server is up, every shard has one and the fleet state agrees. Absent if buckets are in the process."),
		boolValue(h.Healthy()))
	unknown := len(h.Nodes) == 0 || slices.ContainsFunc(h.Nodes, func(n redisstore.NodeHealth) bool { return n.Latency == 0 })
	if len(h.Warnings) > 0 || !unknown {
		out <- meter.Gauge(meter.Desc("store_warnings",
			"Number of Redis settings to change; /v1/health lists them. Absent, not 0, while a Redis server does not answer."),
			float64(len(h.Warnings)))
	}
	out <- meter.Gauge(meter.Desc("store_uncovered_shards", "Shards without a known server."), float64(h.Uncovered))
	seen := map[string]bool{}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if seen[n.Addr] || len(seen) == maxNodes {
			continue
		}
		seen[n.Addr] = true
		out <- meter.Gauge(descNodeUp, boolValue(n.Err == nil), n.Addr)
		out <- meter.Gauge(descBreakerOpen, boolValue(n.Open), n.Addr)
		if n.Latency > 0 {
			out <- meter.Gauge(descNodeLatency, n.Latency.Seconds(), n.Addr)
		}
	}
}

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
