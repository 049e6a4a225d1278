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
	descStoreUp       = desc("store_up", "Whether every bucket can be asked.")
	descStoreChecked  = desc("store_checked_timestamp_seconds", "When the store was last asked how it is.")
	descStoreWarnings = desc("store_warnings", "What should be changed about the store's servers; /v1/health says what.")
	descUncovered     = desc("store_uncovered_shards", "Shards that no server is known for.")
	descNodeUp        = desc("store_node_up", "Whether a server that holds buckets answers.", "node")
	descNodeLatency   = desc("store_node_latency_seconds", "How long a server took to answer a ping.", "node")
)

const (
	probeEvery   = 5 * time.Second // however often anyone scrapes
	probeTimeout = 2 * time.Second
	maxNodes     = 1_000
)

// WatchStore tells how the store is. It is asked when somebody scrapes, but
// not more than once in five seconds, and a scrape waits for two at most.
func (m *Metrics) WatchStore(health func(context.Context) redisstore.Health) error {
	return m.register(&storeCollector{probe: probe{ask: health, every: probeEvery, timeout: probeTimeout}})
}

type storeCollector struct{ probe probe }

// Describe implements [prometheus.Collector].
func (c *storeCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descStoreUp, descStoreChecked, descStoreWarnings, descUncovered, descNodeUp, descNodeLatency} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *storeCollector) Collect(out chan<- prometheus.Metric) {
	h, at := c.probe.last()
	if at.IsZero() {
		out <- gauge(descStoreUp, 0) // it has not answered yet
		return
	}
	out <- gauge(descStoreUp, float64(indexOf(h.Healthy())))
	out <- gauge(descStoreChecked, seconds(at))
	out <- gauge(descStoreWarnings, float64(len(h.Warnings)))
	out <- gauge(descUncovered, float64(h.Uncovered))
	told := map[string]bool{}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if told[n.Addr] || len(told) == maxNodes {
			continue
		}
		told[n.Addr] = true
		out <- gauge(descNodeUp, float64(indexOf(n.Err == nil)), n.Addr)
		if n.Err == nil {
			out <- gauge(descNodeLatency, n.Latency.Seconds(), n.Addr)
		}
	}
}

// probe asks the store how it is, once at a time.
type probe struct {
	ask            func(context.Context) redisstore.Health
	every, timeout time.Duration

	asking singleflight.Group
	latest atomic.Pointer[storeHealth]
}

// storeHealth is what the store said, and when.
type storeHealth struct {
	redisstore.Health
	at time.Time
}

// last is what the store said last, and when. If that is long ago the store is
// asked again, and if it does not answer in time that is the answer.
func (p *probe) last() (redisstore.Health, time.Time) {
	select {
	case answer := <-p.asking.DoChan("", func() (any, error) { return p.current(), nil }):
		h := answer.Val.(*storeHealth)
		return h.Health, h.at
	case <-time.After(p.timeout):
		return redisstore.Health{}, time.Time{}
	}
}

func (p *probe) current() *storeHealth {
	if h := p.latest.Load(); h != nil && time.Since(h.at) < p.every {
		return h
	}
	// Less than the patience of a scrape, so that it hears which node is away.
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout*3/4)
	defer cancel()
	h := &storeHealth{p.ask(ctx), time.Now()}
	p.latest.Store(h)
	return h
}
