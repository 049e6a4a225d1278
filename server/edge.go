package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/slots"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// edge is where clients connect: listeners, certificates and authentication.
type edge struct {
	config  *config.Server
	log     *slog.Logger
	metrics *telemetry.Metrics
	closers *closers

	guard     *access.Guard
	certs     *certificates // nil without TLS
	listeners []*listener
	served    chan error    // receives the error with which each listener ends
	started   chan struct{} // closed when the listeners have their handlers
	draining  atomic.Bool
}

// listener is one address that the server listens on.
type listener struct {
	name   string
	net    net.Listener
	server interface {
		Shutdown(ctx context.Context) error
		Close() error
	}
	// handler and unsent are for HTTP only. handler is set before edge.started is closed.
	handler http.Handler
	unsent  *slots.Backlog // bounds the memory of answers that clients do not read
}

// buildEdge opens the listeners, which serve at once: see handler for the answers while the
// server starts.
func (a *App) buildEdge(ctx context.Context) (err error) {
	c := &a.config.Server
	a.edge = &edge{
		config: c, log: a.log, metrics: a.watch.metrics, closers: &a.closers,
		served: make(chan error, 4), started: make(chan struct{}),
	}
	if err := a.edge.secure(a.tasks); err != nil {
		return err
	}
	if c.GRPC != "" {
		if err := a.listenGRPC(ctx); err != nil {
			return err
		}
	}
	for _, l := range []struct{ name, addr string }{{"http", c.HTTP}, {"admin", c.Admin}, {"metrics", c.Metrics}} {
		if l.addr == "" {
			continue
		}
		if err := a.edge.listen(ctx, l.name, l.addr); err != nil {
			return err
		}
	}
	return nil
}

// secure sets up authentication, and loads and watches the certificates.
func (e *edge) secure(tasks *background.Group) (err error) {
	c := e.config
	if e.guard, err = access.New(c, e.log); err != nil {
		return err
	}
	if e.guard.Open() && c.TLS.ClientCAFile == "" {
		e.log.Warn("no authentication: any client that reaches the server may call it; "+
			"set server.auth or restrict the network",
			"http", c.HTTP, "grpc", cmp.Or(c.GRPC, "off"))
	}
	watched := []watchedFiles{{[]string{c.Auth.TokensFile, c.Auth.OIDC.CAFile}, filesInterval, e.guard.Reload, "the last tokens"}}
	if t := &c.TLS; t.CertFile != "" {
		if e.certs, err = loadCertificates(t); err != nil {
			return err
		}
		watched = append(watched, watchedFiles{
			[]string{t.CertFile, t.KeyFile, t.ClientCAFile}, t.ReloadInterval, e.certs.load, "the last certificates",
		})
	}
	for _, files := range watched {
		tasks.Go(func(ctx context.Context) { files.watch(ctx, e.log) })
	}
	return nil
}

func (e *edge) usesTLS(listener string) bool {
	return e.certs != nil && slices.Contains(e.config.TLS.Listeners, listener)
}

// addr returns the address of a listener, empty if there is no such listener.
func (e *edge) addr(name string) string {
	for _, l := range e.listeners {
		if l.name == name {
			return l.net.Addr().String()
		}
	}
	return ""
}

// shutdown closes the listeners and waits until their requests have ended. Requests that have
// not ended when ctx ends are aborted, which is an error.
func (e *edge) shutdown(ctx context.Context) error {
	errs := make([]error, len(e.listeners))
	var all sync.WaitGroup
	for i, l := range e.listeners {
		all.Go(func() {
			if err := l.server.Shutdown(ctx); err != nil {
				errs[i] = errors.Join(fmt.Errorf("draining %s: %w", l.name, err), l.server.Close())
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// openListener listens on an address, with a bound on the number of connections.
func (e *edge) openListener(ctx context.Context, name, addr string) (*limitListener, error) {
	var lc net.ListenConfig
	unlimited, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w (server.%s sets the address)", name, err, name)
	}
	limited := newLimitListener(unlimited, name, e.connectionLimit(name), e.log)
	e.metrics.WatchConnections(telemetry.Connections{
		Listener: name, Limit: limited.limit,
		Open: limited.open.Load, OverLimit: limited.overLimit.Load, Failed: limited.failed.Load,
	})
	return limited, nil
}

func (e *edge) listen(ctx context.Context, name, addr string) error {
	limited, err := e.openListener(ctx, name, addr)
	if err != nil {
		return err
	}
	var accepting net.Listener = limited
	if e.usesTLS(name) {
		accepting = tls.NewListener(accepting, e.certs.config(http1))
	}
	t := &e.config.Timeouts
	l := &listener{name: name, net: accepting, unsent: slots.NewBacklog(maxUnsent)}
	server := &http.Server{
		Handler:           e.handler(l),
		ConnContext:       l.connContext,
		ReadHeaderTimeout: t.ReadHeader, ReadTimeout: t.Read, WriteTimeout: t.Write, IdleTimeout: t.Idle,
		MaxHeaderBytes: 32 << 10, Protocols: new(http.Protocols),
		ErrorLog: log.New(&logWriter{e.log}, "", 0),
	}
	server.Protocols.SetHTTP1(true) // not HTTP/2: nothing bounds the concurrent requests of a connection
	l.server = server
	e.serve(l, server.Serve)
	return nil
}

// serve serves a listener in a goroutine, until the listener is closed.
func (e *edge) serve(l *listener, serve func(net.Listener) error) {
	e.listeners = append(e.listeners, l)
	go func() { e.served <- serve(l.net) }()
	e.closers.add(func() error { _ = l.server.Close(); return nil }) // may fail after Shutdown
}

// startPatience is how long a request waits while the server starts. It is longer than a start
// takes.
const startPatience = 5 * time.Second

// handler passes requests to the listener's handler. While the server starts it answers
// probes, and other requests wait. Over the limit it passes only /healthz and
// /readyz, and answers others with 503.
//
// While the server drains, and over the limit, each answer is the last of its connection. It
// tells the client, which then sends no further request there that could be lost.
func (e *edge) handler(l *listener) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		overLimit := r.Context().Value(overLimitKey{}) != nil
		if overLimit || e.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		switch path := r.URL.Path; {
		case overLimit && path != "/healthz" && path != "/readyz":
			w.Header().Set("Retry-After", "1")
			access.Refuse(w, r, http.StatusServiceUnavailable, "The server has too many connections.")
		case e.hasStarted():
			l.handler.ServeHTTP(w, r)
		case path == "/healthz":
			live(w, r)
		case path == "/readyz":
			plain(w, http.StatusServiceUnavailable, "not ready: starting\n")
		case path == healthcheckPath:
			plain(w, http.StatusInternalServerError, "not ready: starting\n")
		case e.waitForStart(r.Context()) == nil:
			l.handler.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			access.Refuse(w, r, http.StatusServiceUnavailable, "The server is starting.")
		}
	})
}

func (e *edge) hasStarted() bool {
	select {
	case <-e.started:
		return true
	default:
		return false
	}
}

// logWriter writes the log lines of net/http to the log. Most are about errors of clients and
// have the level debug. A panic is an error of the server.
type logWriter struct{ log *slog.Logger }

func (w *logWriter) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if strings.Contains(string(line), "panic serving") {
		level = slog.LevelError
	}
	w.log.Log(context.Background(), level, "net/http", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
