package server

import (
	"context"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// buildInsight sets up the recording of decisions for the admin API.
func (a *App) buildInsight(context.Context) error {
	if !a.config.Telemetry.Insight {
		return nil
	}
	c := insight.Config{
		Engine: a.plane.engine.Load, RuleSet: a.config.RateLimit.DefaultRuleSetID, Version: a.version, Durations: a.metrics.Durations,
		Revisions: a.revisions, Draining: a.draining.Load, Health: a.lastHealth, Logger: a.log,
	}
	if a.config.Redis.Enabled {
		c.Nodes, c.Fleet = a.plane.nodes, a.plane.fleet
	}
	a.insight = insight.New(c)
	return nil
}

// revisions returns the revisions of the rule sets in effect, copies on disk included: they
// may differ from what other servers have.
func (a *App) revisions() map[string]int64 {
	all := map[string]int64{}
	for _, s := range a.rules.Status() {
		if s.Source != reload.FromNowhere {
			all[s.RuleSet] = s.Revision
		}
	}
	return all
}

// fleet returns where the servers leave their reports.
func (p *dataPlane) fleet() (insight.Fleet, error) {
	if store := p.redis.Load(); store != nil {
		return store, nil
	}
	return nil, errNotConnected
}

// nodes returns the breakers of the nodes of Redis.
func (p *dataPlane) nodes() []admin.RedisNode {
	store := p.redis.Load()
	if store == nil {
		return []admin.RedisNode{{Node: "redis", Open: true, Since: p.began.Load(), Error: errNotConnected.Error()}}
	}
	var all []admin.RedisNode
	for _, n := range store.Breakers() {
		node := admin.RedisNode{Node: n.Addr, Open: n.Open}
		if n.Err != nil {
			node.Error = n.Err.Error()
			node.Since = &n.Since
		}
		all = append(all, node)
	}
	return all
}

// observer observes the decisions of the engine.
type observer struct {
	*telemetry.Metrics
	recorder *insight.Recorder // or nil
}

func (a *App) observer() fluxgate.Observer {
	o := &observer{Metrics: a.metrics}
	if a.insight != nil {
		o.recorder = a.insight.Recorder()
	}
	return o
}

// Decided implements [fluxgate.Observer].
func (o *observer) Decided(ctx context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	o.Metrics.Decided(ctx, req, d, err)
	if o.recorder != nil {
		o.recorder.Decided(ctx, req, d, err)
	}
}

// Waiting implements [fluxgate.Observer].
func (o *observer) Waiting(ctx context.Context, change int) {
	check.Waiting(ctx)
	o.Metrics.Waiting(ctx, change)
}
