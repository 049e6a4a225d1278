// Package promlimit adds the metrics of rate limits to the registry of a Go service.
//
//	metrics := promlimit.New("api-limits")
//	prometheus.MustRegister(metrics)
//	engine, err := fluxgate.New(store, rules, fluxgate.WithRuleSet("api-limits"), fluxgate.WithObserver(metrics))
//	...
//	limit, err := httplimit.New(metrics.Limiter(engine))
//
// The metrics have the names, labels and help texts of a fluxgate server, so that its alerts and
// its dashboard show services too. No label is what a caller sends: the first 100 rule sets and
// 1,000 rules have labels of their own, and later ones share "other".
package promlimit

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/store"
)

// Collector counts the decisions of one engine: it is its observer. It allocates nothing for a
// decision.
type Collector struct{ meter *meter.Meter }

var (
	_ prometheus.Collector = (*Collector)(nil)
	_ fluxgate.Observer    = (*Collector)(nil)
)

// New returns a collector. ruleSet is the label of requests that name no rule set: that of
// [fluxgate.WithRuleSet].
func New(ruleSet string) *Collector { return &Collector{meter.New(meter.Config{RuleSet: ruleSet})} }

// Limiter returns engine as a limiter that measures how long it takes to decide. From then on
// the collector also reports the tokens of the engine's fallback.
func (c *Collector) Limiter(engine *fluxgate.Engine) fluxgate.Limiter {
	c.meter.WatchFallback(engine.FallbackStats)
	return c.meter.Limiter(engine)
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(out chan<- *prometheus.Desc) { c.meter.Describe(out) }

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(out chan<- prometheus.Metric) { c.meter.Collect(out) }

// Decided implements [fluxgate.Observer].
func (c *Collector) Decided(ctx context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	c.meter.Decided(ctx, req, d, err)
}

// Waiting implements [fluxgate.Observer].
func (c *Collector) Waiting(ctx context.Context, change int) { c.meter.Waiting(ctx, change) }

// Settled implements [fluxgate.Observer].
func (c *Collector) Settled(ctx context.Context, s store.Settlement, err error) {
	c.meter.Settled(ctx, s, err)
}

// StoreFailed implements [fluxgate.Observer].
func (c *Collector) StoreFailed(ctx context.Context, err error) { c.meter.StoreFailed(ctx, err) }
