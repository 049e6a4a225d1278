package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/redislog"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/slots"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/redis/go-redis/v9"
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

	plane     *dataPlane
	redisWait time.Duration         // how long a start waits for Redis
	redis     redis.UniversalClient // nil without Redis
	source    *ruleSource
	rules     *reload.Reloader
	// strategy is how changes of rules are detected.
	strategy reload.Strategy
	metrics  *telemetry.Metrics
	tracing  *telemetry.Tracing
	insight  *insight.Insight // nil if it is off
	guard    *access.Guard
	certs    *certificates
	audit    *audit.Log // nil without an admin listener

	listeners []*listener
	served    chan error    // gets the end of each listener
	started   chan struct{} // closed when the listeners have their handlers
	draining  atomic.Bool
	ending    sync.Once
	ended     error

	closing sync.Mutex // guards the following fields
	closed  bool
	closers []func() error

	reported  atomic.Pointer[reportedHealth]
	sourceIDs sourceIDs
}

var discard = slog.New(slog.DiscardHandler)

// listener is one address of the server.
type listener struct {
	name   string
	net    net.Listener
	server interface {
		Shutdown(ctx context.Context) error
		Close() error
	}
	// handler and unsent are those of HTTP. The handler is set before the server has started.
	handler http.Handler
	unsent  *slots.Backlog
}

// New opens the listeners and builds a server. From the beginning it answers
// liveness probes, and readiness probes with 503; other requests wait. An invalid
// configuration is an error; an unavailable Redis or rule source is not, and delays
// New by a few seconds at most.
func New(ctx context.Context, c *config.Config, options Options) (_ *App, err error) {
	a := newApp(c, options)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting the server: %w", err), a.close())
		}
	}()
	if err := c.Check(); err != nil {
		return nil, err
	}
	for _, build := range []func(context.Context) error{
		a.buildTelemetry, a.buildAccess, a.openListeners, a.buildRules, a.buildInsight, a.buildEngine, a.buildHandlers,
	} {
		if err := build(ctx); err != nil {
			return nil, err
		}
	}
	if a.insight != nil {
		a.background(ctx, a.insight.Run)
	}
	close(a.started)
	return a, nil
}

func newApp(c *config.Config, options Options) *App {
	a := &App{
		config: c, log: options.Logger, version: options.Version, plane: new(dataPlane), redisWait: time.Second,
		served: make(chan error, 4), started: make(chan struct{}),
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	redislog.Use(a.log, slog.LevelDebug) // the store and health report problems
	return a
}

// onClose calls f when the server ends, or now if it has ended.
func (a *App) onClose(f func() error) {
	a.closing.Lock()
	closed := a.closed
	if !closed {
		a.closers = append(a.closers, f)
	}
	a.closing.Unlock()
	if closed {
		_ = f() // the result of close was returned already
	}
}

// background runs a function until the server ends.
func (a *App) background(ctx context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	a.onClose(func() error { cancel(); <-done; return nil })
}

// close calls the functions of onClose, the last first.
func (a *App) close() error {
	a.closing.Lock()
	a.closed = true
	closers := a.closers
	a.closers = nil
	a.closing.Unlock()
	var errs []error
	for i := len(closers) - 1; i >= 0; i-- {
		errs = append(errs, closers[i]())
	}
	return errors.Join(errs...)
}

// Addr returns the address of the listener http, grpc, admin or metrics, empty if there is none.
func (a *App) Addr(name string) string {
	for _, l := range a.listeners {
		if l.name == name {
			return l.net.Addr().String()
		}
	}
	return ""
}

// Run serves until ctx ends, then drains: it reports not ready, asks clients to
// close their connections, waits for requests to end, and closes everything. It
// returns nil if no request was lost.
func (a *App) Run(ctx context.Context) error {
	a.logStart()
	a.background(ctx, a.logMissingRules)
	a.background(ctx, a.watchHealth)
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-a.served:
		if errors.Is(failed, http.ErrServerClosed) {
			failed = nil // by Shutdown
			break
		}
		a.log.Error("listener failed: shutting down", "error", failed)
	}
	drained := a.Shutdown(context.WithoutCancel(ctx))
	return errors.Join(failed, drained)
}

// minDrain is the shortest time in which clients are asked to close their
// connections. A connection that seems idle may have a request on its way.
const minDrain = 250 * time.Millisecond

// Shutdown drains and closes. The ctx of the first call and the configured timeout
// bound it; later calls wait for the first.
func (a *App) Shutdown(ctx context.Context) error {
	a.ending.Do(func() { a.ended = a.drain(ctx) })
	return a.ended
}

func (a *App) drain(ctx context.Context) error {
	a.draining.Store(true)
	a.log.Info("draining", "delay", a.config.Server.Drain.Delay.String(), "timeout", a.config.Server.Drain.Timeout.String())
	pause(ctx, max(minDrain, a.config.Server.Drain.Delay))
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, a.config.Server.Drain.Timeout))
	defer cancel()
	errs := make([]error, len(a.listeners))
	var all sync.WaitGroup
	for i, l := range a.listeners {
		all.Go(func() {
			if err := l.server.Shutdown(ctx); err != nil {
				errs[i] = errors.Join(fmt.Errorf("draining %s: %w", l.name, err), l.server.Close())
			}
		})
	}
	all.Wait()
	errs = append(errs, a.close())
	if n := a.plane.fallbackStats().Pending; n > 0 {
		a.log.Warn("Redis was not charged for tokens of the fallback: the server stopped", "tokens", n)
	}
	a.log.Info("stopped")
	return errors.Join(errs...)
}

// Reload loads the rules, tokens and certificates now, and reopens the audit file.
// An invalid one is an error and the former stays in effect.
func (a *App) Reload(ctx context.Context) error {
	err := errors.Join(a.rules.Reload(ctx), a.guard.Reload(), a.certs.load())
	if a.audit != nil {
		err = errors.Join(err, a.audit.Reload())
	}
	if err != nil {
		a.log.Error("reload failed: the last valid rules, tokens and certificates stay in effect", "error", err)
		return fmt.Errorf("reloading: %w", err)
	}
	a.log.Info("reloaded")
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
