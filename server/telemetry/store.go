package telemetry

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/internal/meter"
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
