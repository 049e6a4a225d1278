package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// Path is the way of a request from a caller to its decision.
type Path interface {
	// Send sends a request of a user. The caller is a small number, for paths that
	// keep a connection for each.
	Send(ctx context.Context, caller int, user string) Answer
	// Healthy reports whether health says up.
	Healthy(ctx context.Context) bool
	// Deadline is the time in which a request has an answer.
	Deadline() time.Duration
}

// apiKeyHeader has the user: the snippets for proxies pass it on.
const apiKeyHeader = "X-API-Key"

const ruleSetID = "api-limits"

// ruleSet limits every user.
func ruleSet(tb testing.TB) *rules.Set {
	tb.Helper()
	var all []rules.Rule
	for _, l := range allLimits {
		all = append(all, l.rules()...)
	}
	set, err := rules.NewSet(ruleSetID, all...)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// Gateway is a process with the middleware: middleware, engine, leases, Redis store.
type Gateway struct {
	store   *redisstore.Store
	handler http.Handler
	config  redisstore.Config
}

// StartGateway returns the only gateway over the Redis at uri. It ends with the test.
func StartGateway(tb testing.TB, uri string) *Gateway {
	tb.Helper()
	g := openGateway(tb, uri)
	leases := lease.New(g.store, lease.Config{})
	tb.Cleanup(func() { _ = leases.Close() })
	g.serve(tb, leases)
	return g
}

func openGateway(tb testing.TB, uri string) *Gateway {
	tb.Helper()
	g := &Gateway{config: redisstore.Config{Timeout: storeTimeout, Logger: slog.New(slog.DiscardHandler)}}
	var err error
	if g.store, err = redisstore.Open(tb.Context(), uri, g.config); err != nil {
		tb.Fatal(err)
	}
	return g
}

// serve decides requests by a store.
func (g *Gateway) serve(tb testing.TB, buckets store.Store) {
	tb.Helper()
	local, err := memstore.New(memstore.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	engine, err := fluxgate.New(buckets, fluxgate.Static(ruleSet(tb)), fluxgate.WithFallback(local), fluxgate.WithFallbackShare(1))
	if err != nil {
		tb.Fatal(err)
	}
	limit, err := httplimit.New(engine, httplimit.WithAPIKeyFunc(httplimit.Header(apiKeyHeader)), httplimit.WithObserver(observer{}))
	if err != nil {
		tb.Fatal(err)
	}
	g.handler = limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(answerKey{}).(*Answer).work(r.Context(), r.Header.Get(apiKeyHeader))
		w.WriteHeader(http.StatusOK)
	}))
}

// Send implements [Path].
func (g *Gateway) Send(ctx context.Context, _ int, user string) Answer {
	var answer Answer
	req, err := http.NewRequestWithContext(context.WithValue(ctx, answerKey{}, &answer), http.MethodGet, pathOf(user), http.NoBody)
	if err != nil {
		return Answer{Err: err}
	}
	req.RemoteAddr = "192.0.2.1:4711"
	req.Header.Set(apiKeyHeader, user)
	var w response
	g.handler.ServeHTTP(&w, req)
	switch w.status {
	case http.StatusOK:
		answer.Allowed = true
	case http.StatusTooManyRequests:
	default:
		answer.Err = fmt.Errorf("status %d", w.status)
	}
	return answer
}

// Healthy implements [Path].
func (g *Gateway) Healthy(ctx context.Context) bool {
	health := g.store.Health(ctx)
	return health.Healthy()
}

// Deadline implements [Path].
func (g *Gateway) Deadline() time.Duration { return g.config.Timeout }

type answerKey struct{}

// observer notes in the request whether its decision was degraded.
type observer struct{}

func (observer) Decided(r *http.Request, d *fluxgate.Decision) {
	r.Context().Value(answerKey{}).(*Answer).Degraded = d.Degraded
}
func (observer) Skipped(*http.Request)       {}
func (observer) Failed(*http.Request, error) {}

// response keeps the status only.
type response struct {
	header http.Header
	status int
}

func (r *response) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *response) WriteHeader(status int) { r.status = status }

func (r *response) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return len(b), nil
}
