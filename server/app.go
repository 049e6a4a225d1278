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
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/redis/go-redis/v9"
)

// Options are what a configuration file does not say.
type Options struct {
	// Logger gets what happens. Nil means slog.Default().
	Logger *slog.Logger
	// Version is what was built.
	Version string
}

// App is a server.
type App struct {
	config  *config.Config
	log     *slog.Logger
	version string

	plane  *dataPlane
	redis  redis.UniversalClient // nil if it is not used
	source *ruleSource
	rules  *reload.Reloader
	// strategy is how changes of rules are noticed.
	strategy reload.Strategy
	metrics  *telemetry.Metrics
	tracing  *telemetry.Tracing
	guard    *access.Guard
	certs    *certificates
	audit    *audit.Log // nil without an admin listener

	listeners []*listener
	draining  atomic.Bool
	ending    sync.Once
	ended     error

	closing sync.Mutex // guards what follows
	closed  bool
	closers []func() error
}

var discard = slog.New(slog.DiscardHandler)

// listener is one address that the server answers on.
type listener struct {
	name   string
	net    net.Listener
	server *http.Server
}

// New builds a server and opens its listeners. Nothing is answered before Run.
// A configuration that cannot work is an error; a Redis or a rule source that
// is away is not.
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
		a.buildTelemetry, a.buildRules, a.buildEngine, a.buildAccess, a.buildListeners,
	} {
		if err := build(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func newApp(c *config.Config, options Options) *App {
	a := &App{config: c, log: options.Logger, version: options.Version, plane: new(dataPlane)}
	if a.log == nil {
		a.log = slog.Default()
	}
	redislog.Use(a.log, slog.LevelDebug) // the store and the health report what is wrong
	return a
}

// onClose has something ended with the server, or at once if that has ended.
func (a *App) onClose(f func() error) {
	a.closing.Lock()
	closed := a.closed
	if !closed {
		a.closers = append(a.closers, f)
	}
	a.closing.Unlock()
	if closed {
		_ = f() // nobody is left to hear of it
	}
}

// close ends what was built, the last first.
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

// Addr is where a listener is: http or admin. It is empty if there is none.
func (a *App) Addr(name string) string {
	for _, l := range a.listeners {
		if l.name == name {
			return l.net.Addr().String()
		}
	}
	return ""
}

// Run answers until ctx ends, then drains: it says that it is not ready, asks
// clients to close their connections, waits for requests to end, and closes
// everything. It returns nil if nothing was lost on the way.
func (a *App) Run(ctx context.Context) error {
	a.logStart()
	ended := make(chan error, len(a.listeners))
	for _, l := range a.listeners {
		go func() { ended <- l.server.Serve(l.net) }()
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-ended:
		if errors.Is(failed, http.ErrServerClosed) {
			failed = nil // by Shutdown
			break
		}
		a.log.Error("a listener has ended", "error", failed)
	}
	drained := a.Shutdown(context.WithoutCancel(ctx))
	return errors.Join(failed, drained)
}

// minDrain is how long clients are asked to close their connections at least.
// Closing one that seems idle could meet a request on its way.
const minDrain = 250 * time.Millisecond

// Shutdown drains and closes. The ctx of the first call and the configured
// timeout bound it; who calls later waits for the first.
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
	a.log.Info("stopped")
	return errors.Join(errs...)
}

// Reload looks at the rules, the tokens and the certificates now, and opens the
// audit anew. What is bad
// is reported and changes nothing.
func (a *App) Reload(ctx context.Context) error {
	err := errors.Join(a.rules.Reload(ctx), a.guard.Reload(), a.certs.load())
	if a.audit != nil {
		err = errors.Join(err, a.audit.Reload())
	}
	if err != nil {
		a.log.Error("reloaded with errors: what was good before stays", "error", err)
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
