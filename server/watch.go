package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/plane"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// watch is what shows the work of a server: metrics with traces, and live numbers.
type watch struct {
	recorder *insight.Recorder
	metrics  *telemetry.Metrics
	insight  *insight.Insight // nil if it is off
}

// buildTelemetry sets up metrics and tracing.
func (a *App) buildTelemetry(ctx context.Context) error {
	c, slots := a.config, 0
	if c.WaitForRefill.Enabled {
		slots = c.WaitForRefill.MaxConcurrentWaits
	}
	ruleSet := c.RateLimit.DefaultRuleSetID
	tracing, err := telemetry.NewTracing(ctx, telemetry.TracingConfig{
		Endpoint:    string(c.Telemetry.OTLPEndpoint),
		SampleRatio: c.Telemetry.SampleRatio,
		Version:     a.version,
		Logger:      a.log,
	})
	if err != nil {
		return err
	}
	a.closers.add(func() error { return tracing.Shutdown(context.WithoutCancel(ctx)) })
	recording := insight.RecorderConfig{RuleSet: ruleSet}
	if c.Telemetry.Insight {
		recording.Engine = a.plane.Engine
	}
	recorder := insight.NewRecorder(recording)
	metrics := telemetry.New(telemetry.Config{
		RuleSet: ruleSet, Recorder: recorder, Tracing: tracing, Version: a.version, WaitSlots: slots, Logger: a.log,
	})
	a.watch = &watch{recorder: recorder, metrics: metrics}
	return nil
}

// buildInsight sets up the recording of decisions for the admin API.
func (a *App) buildInsight() {
	if !a.config.Telemetry.Insight {
		return
	}
	c := insight.Config{
		Version:   a.version,
		Durations: a.watch.metrics.Durations,
		Revisions: a.feed.revisions,
		Draining:  a.edge.draining.Load,
		Health:    a.lastHealth,
		Logger:    a.log,
	}
	if a.config.Redis.Enabled {
		c.Nodes = func() []admin.RedisNode { return redisNodes(a.plane) }
		c.Fleet = func() (insight.Fleet, error) {
			if redis := a.plane.Redis(); redis != nil {
				return redis, nil
			}
			return nil, plane.ErrNotConnected
		}
	}
	a.watch.insight = insight.New(a.watch.recorder, c)
}

// redisNodes returns the breakers of the nodes of Redis.
func redisNodes(p *plane.Plane) []admin.RedisNode {
	redis := p.Redis()
	if redis == nil {
		return []admin.RedisNode{{Node: "redis", Open: true, Since: new(p.Began()), Error: plane.ErrNotConnected.Error()}}
	}
	var all []admin.RedisNode
	for _, n := range redis.Breakers() {
		node := admin.RedisNode{Node: n.Addr, Open: n.Open}
		if n.Err != nil {
			node.Error = n.Err.Error()
			if errors.Is(n.Err, context.DeadlineExceeded) {
				node.Error = "no answer in time"
			}
			node.Since = &n.Since
		}
		all = append(all, node)
	}
	return all
}

// route adds a route with metrics and tracing.
func (w *watch) route(mux *http.ServeMux, pattern string, handler http.Handler) {
	mux.Handle(pattern, w.metrics.Route(pattern, handler))
}

// observer observes the decisions of the engine.
type observer struct{ *telemetry.Metrics }

// Waiting implements [fluxgate.Observer].
func (o observer) Waiting(ctx context.Context, change int) {
	check.Waiting(ctx)
	o.Metrics.Waiting(ctx, change)
}
