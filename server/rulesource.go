package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/xdsrules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// ruleSource is the source of the rules.
type ruleSource struct {
	rules.Source
	kind string // file, envoy-files, xds, mongo or redis
}

// openRules opens the source of the rules, and Redis for announcements.
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

// buildRules opens the source of the rules and loads them.
func (a *App) buildRules(ctx context.Context) error {
	c := a.config
	if err := a.openRules(ctx); err != nil {
		return err
	}
	ids := []string{c.RateLimit.DefaultRuleSetID}
	if a.source.kind == config.SourceXDS && !c.NeedsDefaultRuleSet() {
		ids = nil // its domains change, and are loaded from memory at their first request
	}
	if files, ok := a.source.Source.(*filerules.Source); ok && !c.NeedsDefaultRuleSet() {
		if domains, err := files.IDs(ctx); err == nil { // else loading the default reports the error
			ids = domains
		}
	}
	reloading := reload.Config{
		RuleSets: ids, Strategy: reload.Strategy(c.Reload.Strategy), Interval: c.Reload.PollingInterval,
		Jitter: c.Reload.Jitter, Redis: a.redis, Channel: c.Reload.Channel, Copies: c.Rules.Copies, Logger: a.log,
		MaxRuleSets:       max(c.Rules.MaxRuleSets, len(ids)),
		StartWithoutRules: true, // the source may be unavailable
	}
	if reloading.Jitter == 0 {
		reloading.Jitter = -1 // no jitter
	}
	if !c.Reload.Enabled {
		reloading.Strategy = reload.Off
	}
	if a.redis == nil && reloading.Strategy == reload.Auto {
		reloading.Strategy = reload.Polling
	}
	a.strategy = reloading.Strategy
	if c.Reload.ResetBucketsOnReload {
		reloading.ResetBuckets = resetter{a}
	}
	if !c.WaitForRefill.Enabled {
		reloading.Loaded = a.warnOfWaiting
	}
	var err error
	if a.rules, err = reload.Start(ctx, a.source.Source, reloading); err != nil {
		return err
	}
	a.onClose(a.rules.Close)
	interval := c.Reload.PollingInterval
	if !c.Reload.Enabled || reloading.Strategy == reload.PubSub {
		interval = 0 // the source is not polled
	}
	a.metrics.WatchRules(a.rules, interval)
	return nil
}

// warnOfWaiting logs which rules of a rule set wait in vain for WAIT_FOR_REFILL.
func (a *App) warnOfWaiting(set *rules.Set) {
	if ids := neverWait(set); ids != "" {
		a.log.Warn("rules have WAIT_FOR_REFILL, but wait-for-refill.enabled is false: their requests are rejected at once", "ruleSet", set.ID(), "rules", ids)
	}
}

// newRedisClient returns a client for data in Redis other than buckets.
func newRedisClient(ctx context.Context, c *config.Redis) (redis.UniversalClient, error) {
	uri, err := c.Target()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := redisTLS(&c.TLS)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return redisstore.NewClient(ctx, string(uri), redisstore.Config{Mode: redisstore.Mode(c.Mode), TLS: tlsConfig})
}

// redisTLS returns the certificates of connections to Redis, nil for the defaults.
func redisTLS(c *config.RedisTLS) (*tls.Config, error) {
	if *c == (config.RedisTLS{}) {
		return nil, nil //nolint:nilnil // no configuration is no error
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pool, err := config.ReadCA(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading redis.tls.ca-file: %w", err)
		}
		t.RootCAs = pool
	}
	if c.CertFile != "" {
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			return &pair, err
		}
	}
	return t, nil
}

func (a *App) openSource(ctx context.Context, client redis.UniversalClient) error {
	c := a.config
	a.source = &ruleSource{kind: c.RuleSource()}
	switch a.source.kind {
	case config.SourceFile:
		source, err := filerules.Open(c.Rules.File, filerules.Config{MaxFiles: c.Rules.MaxRuleSets, Logger: a.log})
		a.source.Source = source
		return err
	case config.SourceEnvoyFiles:
		source, err := envoyrules.Open(c.Rules.EnvoyFiles, envoyrules.Options{}, filerules.Config{MaxFiles: c.Rules.MaxRuleSets, Logger: a.log})
		a.source.Source = source
		return err
	case config.SourceXDS:
		return a.openXDS(ctx)
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
	return errors.New("no rule source: set rules.file, rules.envoy-files, rules.xds.server or mongo.uri, or enable redis")
}

func (a *App) openXDS(ctx context.Context) error {
	c := &a.config.Rules.XDS
	x := xdsrules.Config{Server: c.Server, NodeID: c.NodeID, NodeMetadata: c.NodeMetadata, MaxMessage: int(c.MaxMessage), Logger: a.log}
	if t := &c.TLS; t.Enabled {
		x.TLS = &xdsrules.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}
	}
	source, err := xdsrules.Open(ctx, x)
	if err != nil {
		return err
	}
	a.onClose(source.Close)
	a.source.Source = source
	return nil
}

// resetter resets buckets in the current store.
type resetter struct{ app *App }

// Reset implements [reload.Resetter].
func (r resetter) Reset(ctx context.Context, what store.Reset) (did bool, err error) {
	if store := r.app.plane.leases.Load(); store != nil {
		return store.Reset(ctx, what)
	}
	if store := r.app.plane.redis.Load(); store != nil {
		return store.Reset(ctx, what)
	}
	if local := r.app.plane.local.Load(); local != nil && !r.app.config.Redis.Enabled {
		return local.Reset(ctx, what)
	}
	return false, errNotConnected
}
