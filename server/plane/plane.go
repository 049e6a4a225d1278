// Package plane is the limiter of a server: an engine over Redis, over memory, or over memory
// until Redis answers for the first time.
package plane

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/server/backend"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// Plane is an engine that is replaced when Redis answers for the first time. Use [New], then
// [Plane.Open].
type Plane struct {
	config *config.Config
	log    *slog.Logger
	// tasks and options are set by Open.
	tasks   *background.Group
	options Options

	engine atomic.Pointer[fluxgate.Engine]
	first  atomic.Pointer[fluxgate.Engine] // decides until Redis answers, and then sends the settlements that it has
	local  *memstore.Store
	shared atomic.Pointer[shared] // nil until Redis answers, or without it
	// failure is why Redis could not be opened yet.
	failure atomic.Pointer[error]
	began   time.Time
	// assumed is how many servers share Redis until it has counted them, 0 if unknown.
	assumed int
}

// shared is the store that several servers use.
type shared struct {
	store.Store
	redis  *redisstore.Store
	leases *lease.Store // wraps redis, nil if redis.leases is off
}

// Options are what an engine needs besides the configuration.
type Options struct {
	// Rules are the rule sets in effect.
	Rules fluxgate.RuleSets
	// Overrides reads the overrides for an engine before it decides. It may be nil.
	Overrides func(ctx context.Context, overrides *fluxgate.Overrides)
	// Observer observes the decisions.
	Observer fluxgate.Observer
	// Login returns the credentials of Redis. Nil means those of the URI.
	Login backend.Credentials
	// Wait is how long Open waits for Redis. Further attempts follow in the background.
	Wait time.Duration
	// Connected is called when the engine over Redis has replaced the engine over memory. Keys
	// then have another salt. It may be nil.
	Connected func()
}

// New returns a plane that cannot decide before [Plane.Open].
func New(c *config.Config, log *slog.Logger) (*Plane, error) {
	local, err := memstore.New(memstore.Config{})
	if err != nil {
		return nil, err
	}
	return &Plane{config: c, log: log, local: local, began: time.Now()}, nil
}

// Open opens the store and builds the engine over it. A Redis that does not answer is no error:
// until it does, requests are decided in memory.
func (p *Plane) Open(ctx context.Context, options Options) error {
	p.options, p.tasks = options, background.New(ctx)
	if !p.config.Redis.Enabled {
		p.log.Warn("Redis is disabled: limits apply to each server separately")
		return p.use(ctx, p.local, nil)
	}
	var from string
	p.assumed, from = backend.AssumedServers(p.config)
	if err := p.use(ctx, unavailableStore{salt: p.local.Salt(), servers: p.assumed, redis: &p.shared}, p.local); err != nil {
		return err
	}
	p.first.Store(p.Engine())
	if folder := p.config.Rules.Copies; folder != "" {
		p.tasks.Go(func(ctx context.Context) { backend.KeepCount(ctx, folder, p.counted, p.log) })
	}
	err := p.useRedis(ctx, options.Wait)
	if err == nil || errors.Is(err, redisstore.ErrDisagrees) || ctx.Err() != nil {
		return err
	}
	p.tasks.Go(p.connect)
	p.failure.Store(&err)
	p.log.Error("Redis unavailable: until it answers, requests are counted in this process (onFailure local), "+
		"allowed (open) or rejected (closed)", "error", err)
	switch {
	case !backend.SharesByServers(p.config):
	case p.assumed == 0:
		p.log.Warn(backend.ServersUnknown)
	default:
		p.log.Info("each server applies its share of the limits", "servers", p.assumed, "from", from)
	}
	return nil
}

// connect uses Redis as soon as it answers.
func (p *Plane) connect(ctx context.Context) {
	for background.Sleep(ctx, time.Second) == nil {
		err := p.useRedis(ctx, backend.OpenTimeout)
		if err == nil {
			after := time.Since(p.began).Round(time.Millisecond).String()
			p.log.Info("connected to Redis: decisions use it from now on", append(p.Attrs(), "after", after)...)
			return
		}
		p.failure.Store(&err)
		if errors.Is(err, redisstore.ErrDisagrees) {
			p.log.Error("Redis is not used: the settings of this server differ from those of the fleet; "+
				"correct them and restart", "error", err)
			return
		}
	}
}

// useRedis builds the engine over Redis, if it answers in time.
func (p *Plane) useRedis(ctx context.Context, patience time.Duration) error {
	opening, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	redis, err := backend.OpenStore(opening, p.config, p.options.Login, true, p.log)
	if err != nil {
		return err
	}
	s := &shared{Store: redis, redis: redis}
	if p.config.Redis.Leases != config.LeasesOff {
		s.leases = lease.New(redis, lease.Config{})
		s.Store = s.leases
	}
	if err := p.use(ctx, s.Store, p.local); err != nil {
		return errors.Join(err, s.Close())
	}
	p.shared.Store(s)
	if p.options.Connected != nil {
		p.options.Connected()
	}
	return nil
}

// use builds the engine over a store. local is its fallback.
func (p *Plane) use(ctx context.Context, buckets store.Store, local store.Fallback) error {
	c := p.config
	overrides := fluxgate.NewOverrides(buckets, c.RateLimit.IPv6Prefix)
	if p.options.Overrides != nil {
		p.options.Overrides(ctx, overrides)
	}
	options := []fluxgate.Option{
		fluxgate.WithMissingRule(c.RateLimit.MissingRuleBehavior == config.MissingAllow),
		fluxgate.WithKnownRuleSets(),
		fluxgate.WithAmbiguousPaths(c.RateLimit.AmbiguousPaths),
		fluxgate.WithPolicy(c.RateLimit.DefaultPolicy),
		fluxgate.WithOnFailure(c.RateLimit.OnFailure),
		fluxgate.WithIPv6Prefix(c.RateLimit.IPv6Prefix),
		fluxgate.WithObserver(p.options.Observer),
		fluxgate.WithOverrides(overrides),
	}
	if c.NeedsDefaultRuleSet() {
		options = append(options, fluxgate.WithRuleSet(c.RateLimit.DefaultRuleSetID))
	}
	if c.RateLimit.ProxySlots == config.HoldSlots {
		options = append(options, fluxgate.WithHeldSlots())
	}
	if c.Events.Identities {
		options = append(options, fluxgate.WithNamedWarnings())
	}
	if local != nil {
		options = append(options, fluxgate.WithFallback(local))
	}
	if !backend.SharesByServers(c) {
		share, _ := c.RateLimit.FallbackShare.Number() // checked at the start
		options = append(options, fluxgate.WithFallbackShare(share))
	}
	if c.WaitForRefill.Enabled {
		options = append(options, fluxgate.WithWaiting(c.WaitForRefill.MaxWaitTime, c.WaitForRefill.MaxConcurrentWaits))
	}
	engine, err := fluxgate.New(buckets, p.options.Rules, options...)
	if err != nil {
		return err
	}
	p.engine.Store(engine)
	return nil
}

// Close returns local tokens to Redis and closes the connections.
func (p *Plane) Close() error {
	if p.tasks != nil {
		p.tasks.Close()
	}
	err := p.local.Close()
	if s := p.shared.Load(); s != nil {
		err = errors.Join(s.Close(), err)
	}
	return err
}
