package server

import (
	"context"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/store"
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

// observer returns what the engine tells its decisions.
func (a *App) observer() fluxgate.Observer {
	if a.insight == nil {
		return a.metrics
	}
	return &observers{a.metrics, a.insight.Recorder()}
}

// observers passes events on to two observers.
type observers struct{ first, second fluxgate.Observer }

func (o *observers) Decided(ctx context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	o.first.Decided(ctx, req, d, err)
	o.second.Decided(ctx, req, d, err)
}

func (o *observers) Waiting(ctx context.Context, change int) {
	o.first.Waiting(ctx, change)
	o.second.Waiting(ctx, change)
}

func (o *observers) Settled(ctx context.Context, s store.Settlement, err error) {
	o.first.Settled(ctx, s, err)
	o.second.Settled(ctx, s, err)
}

func (o *observers) StoreFailed(ctx context.Context, err error) {
	o.first.StoreFailed(ctx, err)
	o.second.StoreFailed(ctx, err)
}
