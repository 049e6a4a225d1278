package server

import (
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
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/syntax"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/forwardauth"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/server/slots"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// buildTelemetry sets up metrics and tracing.
func (a *App) buildTelemetry(ctx context.Context) error {
	c, slots := a.config, 0
	if c.WaitForRefill.Enabled {
		slots = c.WaitForRefill.MaxConcurrentWaits
	}
	a.metrics = telemetry.New(telemetry.Config{RuleSet: c.RateLimit.DefaultRuleSetID, Version: a.version, WaitSlots: slots, Logger: a.log})
	var err error
	a.tracing, err = telemetry.NewTracing(ctx, telemetry.TracingConfig{
		Endpoint: string(c.Telemetry.OTLPEndpoint), SampleRatio: c.Telemetry.SampleRatio, Version: a.version, RuleSet: c.RateLimit.DefaultRuleSetID, Logger: a.log,
	})
	if err != nil {
		return err
	}
	a.onClose(func() error { return a.tracing.Shutdown(context.WithoutCancel(ctx)) })
	return nil
}

// openListeners opens the listeners and serves what can be answered while the server
// starts.
func (a *App) openListeners(ctx context.Context) error {
	c := &a.config.Server
	if err := a.buildCertificates(ctx); err != nil {
		return err
	}
	if err := a.listen(ctx, "http", c.HTTP); err != nil {
		return err
	}
	if c.GRPC != "" {
		if err := a.listenGRPC(ctx); err != nil {
			return err
		}
	}
	for _, l := range []struct{ name, addr string }{{"admin", c.Admin}, {"metrics", c.Metrics}} {
		if l.addr == "" {
			continue
		}
		if err := a.listen(ctx, l.name, l.addr); err != nil {
			return err
		}
	}
	return nil
}

// usesTLS reports whether a listener uses TLS.
func (a *App) usesTLS(listener string) bool {
	return a.certs != nil && slices.Contains(a.config.Server.TLS.Listeners, listener)
}

// buildHandlers builds the handlers of the listeners.
func (a *App) buildHandlers(context.Context) error {
	for _, l := range a.listeners {
		build := a.public
		switch l.name {
		case "grpc":
			continue // its services wait for the start
		case "admin":
			build = a.admin
		case "metrics":
			build = a.observed
		}
		var err error
		if l.handler, err = build(); err != nil {
			return err
		}
	}
	return nil
}

// accept opens an address for a bounded number of connections.
func (a *App) accept(ctx context.Context, name, addr string) (*limitListener, error) {
	var lc net.ListenConfig
	accepting, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w (server.%s sets the address)", name, err, name)
	}
	limited := newLimitListener(accepting, name, a.connectionLimit(name), a.log)
	a.metrics.WatchConnections(telemetry.Connections{
		Listener: name, Limit: limited.limit, Open: limited.open.Load, OverLimit: limited.overLimit.Load, Failed: limited.failed.Load,
	})
	return limited, nil
}

func (a *App) listen(ctx context.Context, name, addr string) error {
	limited, err := a.accept(ctx, name, addr)
	if err != nil {
		return err
	}
	var accepting net.Listener = limited
	if a.usesTLS(name) {
		accepting = tls.NewListener(accepting, a.certs.config())
	}
	t := &a.config.Server.Timeouts
	l := &listener{name: name, net: accepting, unsent: slots.NewBacklog(maxUnsent)}
	server := &http.Server{
		Handler:           boundStreams(a.closeWhileDraining(refuseOverLimit(a.whenStarted(l)))),
		ConnContext:       l.connContext,
		ReadHeaderTimeout: t.ReadHeader, ReadTimeout: t.Read, WriteTimeout: t.Write, IdleTimeout: t.Idle,
		MaxHeaderBytes: 32 << 10, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 100},
		ErrorLog: log.New(&logWriter{a.log}, "", 0),
	}
	l.server = server
	a.serve(l, server.Serve)
	return nil
}

// serve adds a listener and serves it.
func (a *App) serve(l *listener, serve func(net.Listener) error) {
	a.listeners = append(a.listeners, l)
	go func() { a.served <- serve(l.net) }()
	a.onClose(func() error { _ = l.server.Close(); return nil }) // Shutdown may have closed it
}

// startPatience is how long a request waits for the start of the server. It is
// longer than a start takes.
const startPatience = 5 * time.Second

// whenStarted passes requests to the listener's handler. While the server starts it
// answers probes, and other requests wait.
func (a *App) whenStarted(l *listener) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-a.started:
			l.handler.ServeHTTP(w, r)
			return
		default:
		}
		switch r.URL.Path {
		case "/healthz":
			a.live(w, r)
			return
		case "/readyz":
			notReady(w, http.StatusServiceUnavailable, "starting")
			return
		case healthcheckPath:
			notReady(w, http.StatusInternalServerError, "starting")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), startPatience)
		defer cancel()
		select {
		case <-a.started:
			l.handler.ServeHTTP(w, r)
		case <-ctx.Done():
			w.Header().Set("Retry-After", "1")
			refuse(w, r, http.StatusServiceUnavailable, "The server is starting.")
		}
	})
}

// closeWhileDraining asks clients to close their connections while the server
// drains. That answer is the last on its connection, so no request is lost.
func (a *App) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// public returns the handler of the http listener.
func (a *App) public() (http.Handler, error) {
	c := a.config
	secret, err := readSecret(c.Settle.ReceiptSecretFile)
	if err != nil {
		return nil, err
	}
	receipts := receipt.Config{Secret: secret, TTL: c.Settle.ReceiptTTL}
	if a.redis != nil {
		receipts.Ledger = receipt.NewShared(a.redis, c.Redis.Prefix)
	}
	issuer, err := receipt.NewIssuer(receipts)
	if err != nil {
		return nil, err
	}
	limiter := a.tracing.Limiter(a.metrics.Limiter(a.plane))
	api, err := check.New(check.Config{
		Limiter: limiter, Issuer: issuer, RuleSet: c.RateLimit.DefaultRuleSetID, MaxBody: c.Server.MaxBody, MaxBatch: c.Server.MaxBatch,
		Loaded: a.rules.Loaded,
		Failed: func(r *http.Request, err error) {
			a.log.ErrorContext(r.Context(), "request failed without a decision", "error", err)
		},
	})
	if err != nil {
		return nil, err
	}
	mux, protect := http.NewServeMux(), a.notFromPages(c.Server.HTTP)
	for pattern, handler := range api.Routes() {
		a.route(mux, pattern, protect(a.only(config.RoleCheck, handler)))
	}
	a.route(mux, "GET /openapi.json", protect(check.Description()))
	if c.ForwardAuth.Enabled {
		handler, err := a.forwardAuth(limiter)
		if err != nil {
			return nil, err
		}
		// Trusted proxies are known by their addresses. The headers of their
		// requests may be a client's, traceparent included.
		mux.Handle(forwardauth.Path, a.metrics.Route(forwardauth.Path, a.tracing.PublicRoute(forwardauth.Path, handler)))
	}
	a.observe(mux, protect)
	mux.HandleFunc("GET "+healthcheckPath, a.healthcheck)
	return withNotFound(mux), nil
}

// observed returns the handler of the metrics listener.
func (a *App) observed() (http.Handler, error) {
	mux := http.NewServeMux()
	a.observe(mux, a.notFromPages(a.config.Server.Metrics))
	return withNotFound(mux), nil
}

// route adds a route with metrics and tracing.
func (a *App) route(mux *http.ServeMux, pattern string, handler http.Handler) {
	mux.Handle(pattern, a.metrics.Route(pattern, a.tracing.Route(pattern, handler)))
}

func (a *App) forwardAuth(limiter fluxgate.Limiter) (http.Handler, error) {
	c, f := a.config, &a.config.ForwardAuth
	if !c.RateLimit.FilterEnabled {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), nil
	}
	options := []httplimit.Option{httplimit.WithObserver(undecided{a.log})}
	if len(c.RateLimit.IncludePatterns) > 0 {
		options = append(options, httplimit.WithPaths(c.RateLimit.IncludePatterns...))
	}
	if len(c.RateLimit.ExcludePatterns) > 0 {
		options = append(options, httplimit.WithoutPaths(c.RateLimit.ExcludePatterns...))
	}
	return forwardauth.New(limiter, forwardauth.Config{
		Proxies:    clientip.Config{TrustedProxies: c.RateLimit.TrustedProxies, Header: c.RateLimit.ClientIPHeader},
		DenyStatus: f.DenyStatus, DenyHeader: f.DenyHeader, MethodHeader: f.MethodHeader, URIHeader: f.URIHeader, HostHeader: f.HostHeader,
		UserHeader: f.UserHeader, APIKeyHeader: f.APIKeyHeader, Attributes: c.RateLimit.Attributes, Options: options,
	})
}

// undecided logs requests of proxies without a decision. The engine's observer
// counts the others.
type undecided struct{ log *slog.Logger }

func (undecided) Decided(*http.Request, *fluxgate.Decision) {}
func (undecided) Skipped(*http.Request)                     {}
func (u undecided) Failed(r *http.Request, err error) {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, fluxgate.ErrNoRuleSet) && !errors.Is(err, fluxgate.ErrRulesLoading) { // which others log
		u.log.ErrorContext(r.Context(), "request failed without a decision", "error", err)
	}
}

// observe adds the endpoints for health and metrics. Those with details need the
// role read and are protected by protect.
func (a *App) observe(mux *http.ServeMux, protect func(http.Handler) http.Handler) {
	read := func(next http.Handler) http.Handler { return protect(a.guard.OnlyAll(config.RoleRead, refuse, next)) }
	mux.HandleFunc("GET /healthz", a.live)
	mux.HandleFunc("GET /readyz", a.ready)
	a.route(mux, "GET /v1/health", read(http.HandlerFunc(a.health)))
	if a.config.Telemetry.Metrics {
		mux.Handle("GET /metrics", read(a.metrics.Handler()))
	}
}

// notFromPages returns a handler that refuses requests of web pages: from another site,
// or, on loopback, by a host name of the page that resolves to this machine. Off loopback
// any host name may be that of a service.
func (a *App) notFromPages(addr string) func(http.Handler) http.Handler {
	host, _, _ := net.SplitHostPort(addr)
	return func(next http.Handler) http.Handler {
		next = access.SameOrigin(refuse, next)
		if syntax.IsLoopback(host) {
			return access.Host("server.http-hosts", a.config.Server.HTTPHosts, refuse, next)
		}
		return next
	}
}

// logWriter gets the log lines of net/http, mostly about clients. Panics are our
// own.
type logWriter struct{ log *slog.Logger }

func (w *logWriter) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if strings.Contains(string(line), "panic serving") {
		level = slog.LevelError
	}
	w.log.Log(context.Background(), level, "net/http", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
