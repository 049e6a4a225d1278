package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/store/redisstore"
	"golang.org/x/sync/singleflight"
)

var (
	descStoreUp       = desc("store_up", "1 if every bucket is available.")
	descStoreChecked  = desc("store_checked_timestamp_seconds", "When the health of the store was last checked.")
	descStoreWarnings = desc("store_warnings", "Warnings about the servers of the store; /v1/health lists them.")
	descUncovered     = desc("store_uncovered_shards", "Shards without a server.")
	descNodeUp        = desc("store_node_up", "1 if a server that holds buckets answers.", "node")
	descNodeLatency   = desc("store_node_latency_seconds", "How long a server took to answer a ping.", "node")
)

const (
	probeEvery   = 5 * time.Second
	probeTimeout = 2 * time.Second
	maxNodes     = 1_000
)

// WatchStore reports the health of the store. A scrape checks it, at most once
// in five seconds, and waits for two at most.
func (m *Metrics) WatchStore(health func(context.Context) redisstore.Health) {
	m.registry.MustRegister(&storeCollector{health: health})
}

type storeCollector struct {
	health   func(context.Context) redisstore.Health
	checking singleflight.Group
	latest   atomic.Pointer[storeHealth]
}

// storeHealth is the health of the store at a time.
type storeHealth struct {
	redisstore.Health
	at time.Time
}

// Describe implements [prometheus.Collector].
func (c *storeCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descStoreUp, descStoreChecked, descStoreWarnings, descUncovered, descNodeUp, descNodeLatency} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *storeCollector) Collect(out chan<- prometheus.Metric) {
	var h *storeHealth
	select {
	case checked := <-c.checking.DoChan("", func() (any, error) { return c.check(), nil }):
		h = checked.Val.(*storeHealth)
	case <-time.After(probeTimeout):
		out <- gauge(descStoreUp, 0)
		return
	}
	out <- gauge(descStoreUp, boolValue(h.Healthy()))
	out <- gauge(descStoreChecked, seconds(h.at))
	out <- gauge(descStoreWarnings, float64(len(h.Warnings)))
	out <- gauge(descUncovered, float64(h.Uncovered))
	seen := map[string]bool{}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if seen[n.Addr] || len(seen) == maxNodes {
			continue
		}
		seen[n.Addr] = true
		out <- gauge(descNodeUp, boolValue(n.Err == nil), n.Addr)
		if n.Err == nil {
			out <- gauge(descNodeLatency, n.Latency.Seconds(), n.Addr)
		}
	}
}

// check returns the health of the store, at most five seconds old.
func (c *storeCollector) check() *storeHealth {
	if h := c.latest.Load(); h != nil && time.Since(h.at) < probeEvery {
		return h
	}
	// Less than a scrape waits, so that it learns which node does not answer.
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout*3/4)
	defer cancel()
	h := &storeHealth{c.health(ctx), time.Now()}
	c.latest.Store(h)
	return h
}
