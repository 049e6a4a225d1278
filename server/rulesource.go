package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store/redisstore"
	"github.com/redis/go-redis/v9"
)

// ruleSource is where the rules come from.
type ruleSource struct {
	rules.Source
	kind string // file, mongo or redis
}

// openRules opens the source of the rules, and Redis where they are announced.
func (a *App) openRules(ctx context.Context) error {
	if a.config.Redis.Enabled {
		client, err := newRedisClient(ctx, &a.config.Redis)
		if err != nil {
			return err
		}
		a.onClose(client.Close)
		a.redis = client
	}
	if err := a.openSource(ctx, a.redis); err != nil {
		return fmt.Errorf("opening the rules: %w", err)
	}
	return nil
}

// buildRules opens the source of the rules and keeps them up to date.
func (a *App) buildRules(ctx context.Context) error {
	c := a.config
	if err := a.openRules(ctx); err != nil {
		return err
	}
	how := reload.Config{
		RuleSets: []string{c.RateLimit.DefaultRuleSetID}, Strategy: reload.Strategy(c.Reload.Strategy), Interval: c.Reload.PollingInterval,
		Jitter: c.Reload.Jitter, Redis: a.redis, Channel: c.Reload.Channel, Copies: c.Rules.Copies, Logger: a.log,
		StartWithoutRules: true, // the control plane may be away
	}
	if how.Jitter == 0 {
		how.Jitter = -1 // here 0 means none
	}
	if !c.Reload.Enabled {
		how.Strategy = reload.Off
	}
	if a.redis == nil && how.Strategy == reload.Auto {
		how.Strategy = reload.Polling
	}
	a.strategy = how.Strategy
	if c.Reload.ResetBucketsOnReload {
		how.ResetBuckets = resetter{a}
	}
	if !c.WaitForRefill.Enabled {
		how.Loaded = a.warnOfWaiting
	}
	var err error
	if a.rules, err = reload.Start(ctx, a.source.Source, how); err != nil {
		return err
	}
	a.onClose(a.rules.Close)
	every := c.Reload.PollingInterval
	if !c.Reload.Enabled || how.Strategy == reload.PubSub {
		every = 0 // nobody confirms rules that are well
	}
	a.metrics.WatchRules(a.rules, every)
	return nil
}

// warnOfWaiting logs which rules of a rule set would hold requests, and do not.
func (a *App) warnOfWaiting(set *fluxgate.RuleSet) {
	if ids := neverWait(set); ids != "" {
		a.log.Warn("rules say WAIT_FOR_REFILL, but wait-for-refill.enabled is false: their requests are rejected at once", "ruleSet", set.ID(), "rules", ids)
	}
}

// newRedisClient is for what is in Redis beside the buckets.
func newRedisClient(ctx context.Context, c *config.Redis) (redis.UniversalClient, error) {
	uri, err := c.Target()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return redisstore.NewClient(ctx, string(uri), redisstore.Mode(c.Mode))
}

func (a *App) openSource(ctx context.Context, client redis.UniversalClient) error {
	c := a.config
	a.source = &ruleSource{kind: c.RuleSource()}
	switch a.source.kind {
	case config.SourceFile:
		source, err := filerules.Open(c.Rules.File, filerules.Config{Logger: a.log})
		a.source.Source = source
		return err
	case config.SourceMongo:
		source, err := mongorules.Open(ctx, string(c.Mongo.URI), mongorules.Config{
			Database: c.Mongo.Database, Collection: c.Mongo.Collection, Lease: c.Reload.PollingInterval, Logger: a.log,
		})
		if err != nil {
			return err
		}
		a.onClose(source.Close)
		a.source.Source = source
		return nil
	case config.SourceRedis:
		source, err := redisrules.New(client, redisrules.Config{Prefix: c.Redis.Prefix})
		a.source.Source = source
		return err
	}
	return errors.New("there is no source of rules: name rules.file, or enable mongo or redis")
}

// resetter resets buckets in the store that there is by then.
type resetter struct{ app *App }

// Reset implements [reload.Resetter].
func (r resetter) Reset(ctx context.Context, what fluxgate.Key) error {
	_, err := r.ResetOnce(ctx, what, "once")
	return err
}

// ResetOnce implements [reload.OnceResetter].
func (r resetter) ResetOnce(ctx context.Context, what fluxgate.Key, mark string) (bool, error) {
	if store := r.app.plane.redis.Load(); store != nil {
		return store.ResetOnce(ctx, what, mark)
	}
	if local := r.app.plane.local.Load(); local != nil && !r.app.config.Redis.Enabled {
		return true, local.Reset(ctx, what)
	}
	return false, errAway
}
