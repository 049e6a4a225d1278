package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// dataPlane decides: an engine over Redis, over memory, or over nothing while
// Redis is away since the start.
type dataPlane struct {
	engine atomic.Pointer[fluxgate.Engine]
	redis  atomic.Pointer[redisstore.Store] // nil while it is away, or not used
	local  atomic.Pointer[memstore.Store]
	// away is why Redis is not used, if it is not.
	away atomic.Pointer[error]
}

// Check implements the limiter of all transports.
func (p *dataPlane) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	return p.engine.Load().Check(ctx, req)
}

// Settle implements the limiter of all transports.
func (p *dataPlane) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (fluxgate.Settlement, error) {
	return p.engine.Load().Settle(ctx, receipt, actual)
}

// health is that of Redis: of nothing while it is away.
func (p *dataPlane) health(ctx context.Context) redisstore.Health {
	if store := p.redis.Load(); store != nil {
		return store.Health(ctx)
	}
	return redisstore.Health{}
}

// buildEngine makes the data plane and the engine over it.
func (a *App) buildEngine(ctx context.Context) error {
	local, err := memstore.New(memstore.Config{})
	if err != nil {
		return err
	}
	a.onClose(local.Close)
	a.plane.local.Store(local)
	if !a.config.Redis.Enabled {
		a.log.Warn("buckets are in this process: every server counts for itself")
		return a.useStore(local, nil)
	}
	a.metrics.WatchStore(a.plane.health)
	store, err := a.openRedis(ctx)
	switch {
	case err == nil:
		return a.useRedis(store, local)
	case errors.Is(err, redisstore.ErrDisagrees):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	a.plane.away.Store(&err)
	a.log.Error("Redis is away: rules decide as their onFailure says until it is there", "error", err)
	if err := a.useStore(awayStore{salt: local.Salt()}, local); err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.waitForRedis(life, local)
	}()
	a.onClose(func() error { end(); <-done; return nil })
	return nil
}

// waitForRedis opens the store as soon as Redis is there.
func (a *App) waitForRedis(life context.Context, local fluxgate.Store) {
	for life.Err() == nil {
		pause(life, time.Second)
		store, err := a.openRedis(life)
		if err == nil {
			err = a.useRedis(store, local)
		}
		if err == nil {
			a.log.Info("connected to Redis: it decides from now on", redisAttrs(store)...)
			return
		}
		a.plane.away.Store(&err)
		if errors.Is(err, redisstore.ErrDisagrees) {
			a.log.Error("Redis is there, and this server disagrees with the others: correct its configuration and restart it", "error", err)
			return
		}
	}
}

func (a *App) openRedis(ctx context.Context) (*redisstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
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
	return redisstore.Open(ctx, string(uri), redisstore.Config{
		Mode: redisstore.Mode(c.Mode), Prefix: c.Prefix, Timeout: c.Timeout, Shards: c.Shards, Secret: secret, Logger: a.log,
		Pool: redisstore.Pool{Size: c.Pool.MaxTotal, MaxIdle: c.Pool.MaxIdle, MinIdle: c.Pool.MinIdle},
	})
}

// readSecret reads a secret, which is empty if no file is named.
func readSecret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return config.ReadSecret(file)
}

func (a *App) useRedis(store *redisstore.Store, local fluxgate.Store) error {
	if err := a.useStore(store, local); err != nil {
		return errors.Join(err, store.Close())
	}
	a.plane.redis.Store(store)
	a.onClose(store.Close)
	return nil
}

// useStore makes the engine over a store, and local in its place where a rule
// fails locally.
func (a *App) useStore(store, local fluxgate.Store) error {
	c := a.config
	options := []fluxgate.Option{
		fluxgate.WithRuleSet(c.RateLimit.DefaultRuleSetID),
		fluxgate.WithMissingRule(c.RateLimit.MissingRuleBehavior == config.MissingAllow),
		fluxgate.WithAmbiguousPaths(c.RateLimit.AmbiguousPaths),
		fluxgate.WithPolicy(c.RateLimit.DefaultPolicy),
		fluxgate.WithOnFailure(c.RateLimit.OnFailure),
		fluxgate.WithIPv6Prefix(c.RateLimit.IPv6Prefix),
		fluxgate.WithObserver(a.metrics),
	}
	if local != nil {
		options = append(options, fluxgate.WithFallback(local, c.RateLimit.FallbackShare))
	}
	if c.WaitForRefill.Enabled {
		options = append(options, fluxgate.WithWaiting(c.WaitForRefill.MaxWaitTime, c.WaitForRefill.MaxConcurrentWaits))
	}
	engine, err := fluxgate.New(store, a.rules, options...)
	if err != nil {
		return err
	}
	a.plane.engine.Store(engine)
	return nil
}

// errAway is why nothing is decided by a store that is not there.
var errAway = fmt.Errorf("%w: it has not been there since the start", redisstore.ErrUnavailable)

// awayStore takes the place of Redis until it is there. Its salt is that of the
// local store, which is random: a constant would let callers compute the shard
// that they fall into. With Redis comes another engine with the salt of Redis,
// and so other keys. What the local store counted until then is not found
// under them.
type awayStore struct{ salt []byte }

func (awayStore) Take(context.Context, []fluxgate.Demand, *fluxgate.Outcome) error { return errAway }
func (awayStore) Peek(context.Context, []fluxgate.Demand, *fluxgate.Outcome) error { return errAway }
func (awayStore) Settle(context.Context, *fluxgate.Receipt, int64) (fluxgate.Settlement, error) {
	return fluxgate.Settlement{}, errAway
}
func (awayStore) Reset(context.Context, fluxgate.Key) error { return errAway }
func (s awayStore) Salt() []byte                            { return s.salt }
func (awayStore) Close() error                              { return nil }
