package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/redislog"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/backend"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/plane"
	"github.com/fluxgate/fluxgate/server/warnings"
	"github.com/fluxgate/fluxgate/store"
)

// Options are settings that are not in the configuration.
type Options struct {
	// Logger is the log of the server. Nil means slog.Default().
	Logger *slog.Logger
	// Version is the version of the build.
	Version string
}

// App is a fluxgate server.
type App struct {
	config  *config.Config
	log     *slog.Logger
	version string
	login   backend.Credentials // of Redis, nil if they do not change

	watch *watch       // metrics, traces and live numbers
	edge  *edge        // listeners, certificates and authentication
	feed  *feed        // the rule source and the rules in effect
	plane *plane.Plane // the limiter
	audit *audit.Log   // nil without an admin listener
	warns *warnings.Courier
	check atomic.Pointer[check.API] // nil until the handlers are built, and without a listener http

	tasks        *background.Group
	closers      closers
	shutdownOnce sync.Once
	shutdownErr  error

	reported atomic.Pointer[reportedHealth] // the last one
	warnings atomic.Pointer[[]string]       // see Health

	older   []string  // servers that do not apply overrides; only watchHealth uses it
	olderAt time.Time // when it was read
	// unenforced are the rules that the log has named: see notForProxies.
	unenforced []store.Key
}

// New opens the listeners and builds a server. While New runs, the server answers liveness
// probes, and readiness probes with 503. Other requests wait. An invalid configuration is an
// error. An unavailable Redis or rule source is not: it delays New by a few seconds at most.
func New(ctx context.Context, c *config.Config, options Options) (_ *App, err error) {
	a := &App{config: c, log: cmp.Or(options.Logger, slog.Default()), version: options.Version, tasks: background.New(ctx)}
	redislog.Use(a.log, slog.LevelDebug) // the store and the health checks log problems of Redis themselves
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting the server: %w", err), a.close())
		}
	}()
	if err := c.Check(); err != nil {
		return nil, err
	}
	if a.login, err = backend.RedisCredentials(&c.Redis, a.log); err != nil {
		return nil, err
	}
	if a.plane, err = plane.New(c, a.log); err != nil {
		return nil, err
	}
	a.closers.add(a.plane.Close)
	for _, build := range []func(context.Context) error{
		a.buildTelemetry, a.buildEdge, a.buildRules, a.buildPlane, a.buildHandlers,
	} {
		if err := build(ctx); err != nil {
			return nil, err
		}
	}
	if a.watch.insight != nil {
		a.tasks.Go(a.watch.insight.Run)
	}
	a.tasks.Go(a.warns.Run)
	close(a.edge.started)
	return a, nil
}

// buildRules opens the rule source and loads the rules.
func (a *App) buildRules(ctx context.Context) (err error) {
	c := a.config
	if a.feed, err = openFeed(ctx, c, a.login, a.log, &a.closers); err != nil {
		return err
	}
	if err := a.feed.load(ctx, a.plane, &a.closers); err != nil {
		return err
	}
	interval := c.Reload.PollingInterval
	if a.feed.strategy == reload.Off || a.feed.strategy == reload.PubSub {
		interval = 0 // the source is not polled
	}
	a.watch.metrics.WatchRules(a.feed.rules, interval)
	return nil
}

// buildPlane opens the store and builds the engine over it.
func (a *App) buildPlane(ctx context.Context) error {
	a.buildInsight()
	options := plane.Options{
		Rules: a.feed.rules, Overrides: a.feed.rules.UseOverrides, Observer: observer{a.watch.metrics},
		Connected: a.watch.recorder.Forget, Wait: time.Second, Login: a.login,
	}
	if a.config.Redis.Enabled {
		a.watch.metrics.WatchStore(a.plane.Health)
		a.watch.metrics.WatchFallback(a.fallbackStats, a.plane.Servers)
		if a.config.Redis.Leases != config.LeasesOff {
			a.watch.metrics.WatchLeases(a.plane.LeaseStats)
		}
	}
	a.warns = warnings.New(warnings.Config{
		Store: a.plane.Warnings, ShowKey: func(k store.Key) string { return a.plane.Engine().ShowKey(k) },
		URL: string(a.config.Events.Webhook), SecretFile: a.config.Events.SecretFile,
		Count: a.watch.metrics.Warned, Logger: a.log,
	})
	return a.plane.Open(ctx, options)
}

// close ends the background tasks, and then closes what was opened, the last first.
func (a *App) close() error {
	a.tasks.Close()
	return a.closers.close()
}

// Addr returns the address of the listener http, grpc, admin or metrics. It is empty if that
// listener is off.
func (a *App) Addr(name string) string { return a.edge.addr(name) }

// Run serves until ctx ends, then drains: it reports not ready, asks clients to close their
// connections, waits for requests to end, and closes everything. It returns an error if a
// listener failed or if requests were aborted.
func (a *App) Run(ctx context.Context) error {
	a.logStart()
	a.tasks.Go(a.watchHealth)
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-a.edge.served:
		if errors.Is(failed, http.ErrServerClosed) {
			failed = nil // a caller has called Shutdown
			break
		}
		a.log.Error("listener failed: shutting down", "error", failed)
	}
	drained := a.Shutdown(context.WithoutCancel(ctx))
	return errors.Join(failed, drained)
}

// minDrain is the shortest time for which clients are asked to close their connections, before
// the server closes them. A connection that seems idle may have a request on its way.
const minDrain = 250 * time.Millisecond

// settlePatience is how long a server that has drained waits for Redis to send settlements.
const settlePatience = 5 * time.Second

// fallbackStats are those of the engine, with the settlements whose receipts wait for Redis.
func (a *App) fallbackStats() fluxgate.FallbackStats {
	stats := a.plane.FallbackStats()
	if api := a.check.Load(); api != nil {
		waiting, lost := api.Waiting()
		stats.PendingSettlements += waiting
		stats.LostSettlements += lost
	}
	return stats
}

// Shutdown drains and closes the server, see [App.Run]. The ctx of the first call and the
// configured timeout bound how long it takes. Later calls wait for the first, and return its
// error.
func (a *App) Shutdown(ctx context.Context) error {
	a.shutdownOnce.Do(func() { a.shutdownErr = a.drain(ctx) })
	return a.shutdownErr
}

func (a *App) drain(ctx context.Context) error {
	d := &a.config.Server.Drain
	a.edge.draining.Store(true)
	a.log.Info("draining", "delay", d.Delay.String(), "timeout", d.Timeout.String())
	_ = background.Sleep(ctx, max(minDrain, d.Delay))
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, d.Timeout))
	defer cancel()
	err := a.edge.shutdown(ctx)
	a.awaitSettlements(ctx)
	err = errors.Join(err, a.close())
	stats := a.fallbackStats()
	if stats.Pending > 0 {
		a.log.Warn("server stopped before it debited tokens granted locally from Redis: callers may use them again",
			"tokens", stats.Pending)
	}
	if stats.PendingSettlements > 0 {
		a.log.Error("server stopped before Redis answered: settlements are lost, and their requests stay charged at their estimates",
			"settlements", stats.PendingSettlements)
	}
	a.log.Info("stopped")
	return err
}

// awaitSettlements returns when no settlement waits for Redis, in the API, the engine or the store,
// or when there is no more time.
func (a *App) awaitSettlements(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for a.fallbackStats().PendingSettlements > 0 {
		if background.Sleep(ctx, settlePatience/100) != nil {
			return
		}
	}
}

// Reload loads the rules, tokens and certificates now. If one of them is invalid, Reload
// returns an error, and the former version stays in effect.
func (a *App) Reload(ctx context.Context) error {
	err := errors.Join(a.feed.rules.Reload(ctx), a.edge.guard.Reload(), a.edge.certs.load())
	if err != nil {
		a.log.Error("reload failed: the last valid rules, tokens and certificates stay in effect", "error", err)
		return fmt.Errorf("reloading: %w", err)
	}
	a.log.Info("reloaded")
	return nil
}
