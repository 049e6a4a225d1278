package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// dataPlane is the engine over Redis, over memory, or over an unavailableStore
// while Redis has not answered since the start.
type dataPlane struct {
	engine atomic.Pointer[fluxgate.Engine]
	redis  atomic.Pointer[redisstore.Store] // nil until Redis answers, or without it
	leases atomic.Pointer[lease.Store]      // what wraps redis, nil if redis.leases is off
	local  atomic.Pointer[memstore.Store]
	// failure is why Redis could not be opened yet.
	failure atomic.Pointer[error]
	// began is when the server began to connect to Redis.
	began atomic.Pointer[time.Time]
	// assumed is how many servers share Redis until it has counted them, 0 if unknown.
	assumed int
}

// Check implements the limiter of all transports.
func (p *dataPlane) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	return p.engine.Load().Check(ctx, req)
}

// CheckAll implements the limiter of Envoy's service.
func (p *dataPlane) CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error) {
	return p.engine.Load().CheckAll(ctx, reqs)
}

// Refund implements the limiter of Envoy's service.
func (p *dataPlane) Refund(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	return p.engine.Load().Refund(ctx, req)
}

// Settle implements the limiter of all transports.
func (p *dataPlane) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (store.Settlement, error) {
	return p.engine.Load().Settle(ctx, receipt, actual)
}

// SettleUsage implements the limiter of all transports.
func (p *dataPlane) SettleUsage(ctx context.Context, receipt *fluxgate.Receipt, usage *fluxgate.Usage) (map[string]store.Settlement, error) {
	return p.engine.Load().SettleUsage(ctx, receipt, usage)
}

// Extend implements the limiter of all transports.
func (p *dataPlane) Extend(ctx context.Context, receipt *fluxgate.Receipt) error {
	return p.engine.Load().Extend(ctx, receipt)
}

// health returns the health of Redis, empty until it answers.
func (p *dataPlane) health(ctx context.Context) redisstore.Health {
	if store := p.redis.Load(); store != nil {
		return store.Health(ctx)
	}
	return redisstore.Health{}
}

// leaseStats returns what was decided without Redis, zero until it answers.
func (p *dataPlane) leaseStats() lease.Stats {
	if store := p.leases.Load(); store != nil {
		return store.Stats()
	}
	return lease.Stats{}
}

// servers returns how many servers share Redis, 0 if unknown.
func (p *dataPlane) servers() int {
	if store := p.redis.Load(); store != nil && store.Counted() > 0 {
		return store.Counted()
	}
	return p.assumed
}

// fallbackStats returns the token counts of the engine, zero until there is one.
func (p *dataPlane) fallbackStats() fluxgate.FallbackStats {
	if engine := p.engine.Load(); engine != nil {
		return engine.FallbackStats()
	}
	return fluxgate.FallbackStats{}
}

// buildEngine opens the store and builds the engine over it.
func (a *App) buildEngine(ctx context.Context) error {
	local, err := memstore.New(memstore.Config{})
	if err != nil {
		return err
	}
	a.onClose(local.Close)
	a.plane.local.Store(local)
	if !a.config.Redis.Enabled {
		a.log.Warn("Redis is disabled: limits apply to each server separately")
		return a.useStore(local, nil)
	}
	began := time.Now()
	a.plane.began.Store(&began)
	a.metrics.WatchStore(a.plane.health)
	a.metrics.WatchFallback(a.plane.fallbackStats, a.plane.servers)
	if a.config.Redis.Leases != config.LeasesOff {
		a.metrics.WatchLeases(a.plane.leaseStats)
	}
	var from string
	a.plane.assumed, from = assumedServers(a.config)
	if err := a.useStore(unavailableStore{salt: local.Salt(), servers: a.plane.assumed}, local); err != nil {
		return err
	}
	if a.config.Rules.Copies != "" && len(a.listeners) > 0 {
		a.background(ctx, a.keepCount)
	}
	first, waited := make(chan error), make(chan struct{})
	defer close(waited)
	a.background(ctx, func(ctx context.Context) { a.connectRedis(ctx, local, first, waited) })
	timer := time.NewTimer(a.redisWait)
	defer timer.Stop()
	select {
	case err = <-first:
	case <-timer.C:
		err = fmt.Errorf("%w: no answer for %v", redisstore.ErrUnavailable, a.redisWait)
	case <-ctx.Done():
		return ctx.Err()
	}
	if err == nil || errors.Is(err, redisstore.ErrDisagrees) {
		return err
	}
	a.plane.failure.Store(&err)
	a.log.Error("Redis unavailable: until it answers requests are counted in this process (onFailure local), pass (open) or are refused (closed)", "error", err)
	a.logAssumed(from)
	return nil
}

// connectRedis opens the store as soon as Redis answers. first gets the result of
// the first attempt, unless waited is closed before.
func (a *App) connectRedis(ctx context.Context, local store.Fallback, first chan<- error, waited <-chan struct{}) {
	for ; ctx.Err() == nil; pause(ctx, time.Second) {
		store, err := a.openRedis(ctx)
		if err == nil {
			err = a.useRedis(store, local)
		}
		disagrees := errors.Is(err, redisstore.ErrDisagrees)
		select {
		case first <- err:
		case <-waited:
			switch {
			case err == nil:
				after := time.Since(*a.plane.began.Load()).Round(time.Millisecond).String()
				a.log.Info("connected to Redis: decisions use it from now on", append(redisAttrs(store), "after", after)...)
			case disagrees:
				a.log.Error("Redis is not used: the settings of this server differ from those of the fleet; correct them and restart", "error", err)
			}
		case <-ctx.Done():
		}
		if err == nil {
			return
		}
		a.plane.failure.Store(&err)
		if disagrees {
			return
		}
	}
}

// openTimeout bounds an attempt to open the store.
const openTimeout = 5 * time.Second

func (a *App) openRedis(ctx context.Context) (*redisstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	c := &a.config.Redis
	secret, err := readSecret(c.KeySecretFile)
	if err != nil {
		return nil, err
	}
	uri, err := c.Target()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := redisTLS(&c.TLS)
	if err != nil {
		return nil, err
	}
	assumed, _ := assumedServers(a.config)
	return redisstore.Open(ctx, string(uri), redisstore.Config{
		Gateways: assumed,
		Mode:     redisstore.Mode(c.Mode), Prefix: c.Prefix, Timeout: c.Timeout, Shards: c.Shards, Secret: secret, TLS: tlsConfig, Logger: a.log,
		Uncounted: len(a.listeners) == 0, // a tool of operators is no gateway
		Pool:      redisstore.Pool{Size: c.Pool.MaxTotal, MaxIdle: c.Pool.MaxIdle, MinIdle: c.Pool.MinIdle},
	})
}

// readSecret reads a secret from a file. Without a file it is empty.
func readSecret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return config.ReadSecret(file)
}

// useRedis builds the engine over Redis. When the server ends, leases are given back
// before the connections are closed.
func (a *App) useRedis(redis *redisstore.Store, local store.Fallback) error {
	var buckets store.Store = redis
	var leases *lease.Store
	if a.config.Redis.Leases != config.LeasesOff {
		leases = lease.New(redis, lease.Config{})
		buckets = leases
	}
	if err := a.useStore(buckets, local); err != nil {
		return errors.Join(err, buckets.Close())
	}
	a.plane.leases.Store(leases)
	a.plane.redis.Store(redis)
	if a.insight != nil {
		a.insight.Forget() // the keys have another salt now
	}
	a.onClose(buckets.Close)
	return nil
}

// useStore builds the engine over a store. local is its fallback.
func (a *App) useStore(buckets store.Store, local store.Fallback) error {
	c := a.config
	options := []fluxgate.Option{
		fluxgate.WithMissingRule(c.RateLimit.MissingRuleBehavior == config.MissingAllow),
		fluxgate.WithKnownRuleSets(),
		fluxgate.WithAmbiguousPaths(c.RateLimit.AmbiguousPaths),
		fluxgate.WithPolicy(c.RateLimit.DefaultPolicy),
		fluxgate.WithOnFailure(c.RateLimit.OnFailure),
		fluxgate.WithIPv6Prefix(c.RateLimit.IPv6Prefix),
		fluxgate.WithObserver(a.observer()),
	}
	if c.NeedsDefaultRuleSet() {
		options = append(options, fluxgate.WithRuleSet(c.RateLimit.DefaultRuleSetID))
	}
	if local != nil {
		options = append(options, fluxgate.WithFallback(local))
	}
	if c.RateLimit.FallbackShare != config.ShareAuto {
		share, _ := c.RateLimit.FallbackShare.Number() // checked at the start
		options = append(options, fluxgate.WithFallbackShare(share))
	}
	if c.WaitForRefill.Enabled {
		options = append(options, fluxgate.WithWaiting(c.WaitForRefill.MaxWaitTime, c.WaitForRefill.MaxConcurrentWaits))
	}
	engine, err := fluxgate.New(buckets, a.rules, options...)
	if err != nil {
		return err
	}
	a.plane.engine.Store(engine)
	return nil
}

var errNotConnected = fmt.Errorf("%w: %w: no connection since the start", redisstore.ErrUnavailable, store.ErrNotSent)

// unavailableStore replaces Redis until it answers. Its salt is that of the local
// store, which is random: a constant would let callers compute their shard. The
// engine over Redis has another salt, and so other keys: the counts of the local
// store until then are not continued.
type unavailableStore struct {
	salt    []byte
	servers int
}

func (unavailableStore) Take(context.Context, []store.Demand, *store.Outcome) error {
	return errNotConnected
}
func (unavailableStore) Peek(context.Context, []store.Demand, *store.Outcome) error {
	return errNotConnected
}
func (unavailableStore) Settle(context.Context, store.Takes, []int64) ([]store.Settlement, error) {
	return nil, errNotConnected
}
func (unavailableStore) Extend(context.Context, store.Takes) ([]bool, error) {
	return nil, errNotConnected
}
func (unavailableStore) Reset(context.Context, store.Reset) (bool, error) {
	return false, errNotConnected
}
func (unavailableStore) FromMemory(*store.Demand) string { return "" }
func (unavailableStore) Resets() uint64                  { return 0 }
func (s unavailableStore) Salt() []byte                  { return s.salt }
func (s unavailableStore) Gateways() int                 { return s.servers }
func (unavailableStore) Close() error                    { return nil }
