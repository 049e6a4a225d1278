package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/internal/syntax"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/forwardauth"
	"github.com/fluxgate/fluxgate/server/receipt"
)

// buildHandlers builds the handlers of the listeners.
func (a *App) buildHandlers(context.Context) error {
	for _, l := range a.edge.listeners {
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

// public returns the handler of the http listener.
func (a *App) public() (http.Handler, error) {
	c := a.config
	secret, err := config.ReadSecret(c.Settle.ReceiptSecretFile)
	if err != nil {
		return nil, err
	}
	receipts := receipt.Config{Secret: secret, TTL: c.Settle.ReceiptTTL}
	if a.feed.redis != nil {
		receipts.Ledger = receipt.NewShared(a.feed.redis, c.Redis.Prefix)
	}
	issuer, err := receipt.NewIssuer(receipts)
	if err != nil {
		return nil, err
	}
	limiter := a.limiter()
	api, err := check.New(check.Config{
		Limiter: limiter, Issuer: issuer, RuleSet: c.RateLimit.DefaultRuleSetID, MaxBody: c.Server.MaxBody, MaxBatch: c.Server.MaxBatch,
		LedgerTimeout: c.Redis.Timeout, Available: func() bool { return !c.Redis.Enabled || a.plane.Redis() != nil },
		Loaded: a.feed.rules.Loaded, Withdraw: limiter.withdraw, Logger: a.log,
		Failed: newFailures(a.log).Failed,
	})
	if err != nil {
		return nil, err
	}
	a.check.Store(api)
	a.tasks.Go(api.Run)
	mux, protect := http.NewServeMux(), a.notFromPages(c.Server.HTTP)
	for pattern, handler := range api.Routes() {
		a.watch.route(mux, pattern, protect(a.edge.guard.Only(config.RoleCheck, handler)))
	}
	a.watch.route(mux, "GET /openapi.json", protect(check.Description()))
	if c.ForwardAuth.Enabled {
		handler, err := a.forwardAuth(limiter)
		if err != nil {
			return nil, err
		}
		// Trusted proxies are known by their addresses. The headers of their
		// requests may be a client's, traceparent included.
		mux.Handle(forwardauth.Path, a.watch.metrics.PublicRoute(forwardauth.Path, handler))
	}
	a.observe(mux, protect)
	mux.HandleFunc("GET "+healthcheckPath, a.ready("OK", http.StatusInternalServerError))
	return withNotFound(mux), nil
}

// observed returns the handler of the metrics listener.
func (a *App) observed() (http.Handler, error) {
	mux := http.NewServeMux()
	a.observe(mux, a.notFromPages(a.config.Server.Metrics))
	return withNotFound(mux), nil
}

func (a *App) forwardAuth(limiter fluxgate.Limiter) (http.Handler, error) {
	c, f := a.config, &a.config.ForwardAuth
	if !c.RateLimit.FilterEnabled {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), nil
	}
	options := []httplimit.Option{httplimit.WithObserver(undecided{newFailures(a.log)})}
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
type undecided struct{ *failures }

func (undecided) Decided(*http.Request, *fluxgate.Decision) {}
func (undecided) Skipped(*http.Request)                     {}
func (u undecided) Failed(r *http.Request, err error) {
	for _, logged := range []error{context.Canceled, fluxgate.ErrNoRuleSet, fluxgate.ErrRulesLoading} {
		if errors.Is(err, logged) {
			return // by others
		}
	}
	u.write(r.Context(), forwardauth.Path, err)
}

// failures logs requests that the server could not answer, at most one a second: while Redis
// is away any number may fail.
type failures struct {
	log      *slog.Logger
	throttle *logthrottle.Throttle
}

func newFailures(log *slog.Logger) *failures {
	return &failures{log, logthrottle.New(time.Second)}
}

// Failed logs a request of a service.
func (f *failures) Failed(r *http.Request, err error) { f.write(r.Context(), r.Pattern, err) }

func (f *failures) write(ctx context.Context, endpoint string, err error) {
	f.throttle.Log(ctx, f.log, slog.LevelError, "request failed", "endpoint", endpoint, "error", err)
}

// observe adds the endpoints for health and metrics. Those with details need the
// role read and are protected by protect.
func (a *App) observe(mux *http.ServeMux, protect func(http.Handler) http.Handler) {
	read := func(next http.Handler) http.Handler {
		return protect(a.edge.guard.OnlyAll(config.RoleRead, next))
	}
	mux.HandleFunc("GET /healthz", live)
	mux.HandleFunc("GET /readyz", a.ready("ready\n", http.StatusServiceUnavailable))
	a.watch.route(mux, "GET /v1/health", read(http.HandlerFunc(a.health)))
	if a.config.Telemetry.Metrics {
		mux.Handle("GET /metrics", read(a.watch.metrics.Handler()))
	}
}

// notFromPages returns a handler that refuses requests of web pages: from another site,
// or, on loopback, by a host name of the page that resolves to this machine. Off loopback
// any host name may be that of a service.
func (a *App) notFromPages(addr string) func(http.Handler) http.Handler {
	host, _, _ := net.SplitHostPort(addr)
	return func(next http.Handler) http.Handler {
		next = access.SameOrigin(a.edge.guard.LogPage, next)
		if syntax.IsLoopback(host) {
			return access.Host("server.http-hosts", a.config.Server.HTTPHosts, a.edge.guard.LogPage, next)
		}
		return next
	}
}

// withNotFound adds the answers 404 and 405 to requests without a route.
func withNotFound(mux *http.ServeMux) http.Handler {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			access.Refuse(w, r, http.StatusMethodNotAllowed, "Use "+strings.Join(allowed, " or ")+".")
			return
		}
		access.Refuse(w, r, http.StatusNotFound, "No such endpoint.")
	})
	return mux
}
