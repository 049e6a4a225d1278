package telemetry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient{testenv.Suite{M: m}}) }

// patient waits for what tests have given up: an exporter still encodes its spans, which takes a busy
// machine longer than goleak waits.
type patient struct{ testenv.Suite }

func (p patient) Run() int {
	code := p.Suite.Run()
	for end := time.Now().Add(30 * time.Second); goleak.Find() != nil && time.Now().Before(end); {
		runtime.Gosched() // Find waits itself
	}
	return code
}

// world is a gateway in small: rules that are reloaded, a store that can be
// away, and everything measured.
type world struct {
	metrics *telemetry.Metrics
	source  *memrules.Source
	rules   *reload.Reloader
	store   *fickle
	engine  *fluxgate.Engine
	limiter meter.Limiter
}

var here = netip.MustParseAddr("192.0.2.1")

// fickle is a store that is unavailable while away is set.
type fickle struct {
	store.Store
	away atomic.Bool
}

var errAway = errors.New("redis is unavailable: as the test wants it")

func (f *fickle) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if f.away.Load() {
		return errAway
	}
	return f.Store.Take(ctx, demands, out)
}

func (f *fickle) Settle(ctx context.Context, r store.Takes, actual []int64) ([]store.Settlement, error) {
	if f.away.Load() {
		return nil, errAway
	}
	return f.Store.Settle(ctx, r, actual)
}

// ruleSet has a rule for every outcome, each for a path of its own.
func ruleSet(tb testing.TB, id string) *rules.Set {
	tb.Helper()
	hourly := func(n int64) []rules.Band { return []rules.Band{rules.PerHour(n)} }
	set, err := rules.NewSet(id,
		rules.Rule{ID: id + "-ip", Paths: []string{"/api/**"}, Scope: rules.ScopeIP, Bands: hourly(5)},
		rules.Rule{ID: id + "-trial", Paths: []string{"/api/**"}, Mode: rules.ModeShadow, Bands: []rules.Band{
			{Label: "small", Capacity: 1, Refill: time.Hour}, {Label: "large", Capacity: 2, Refill: time.Hour}}},
		rules.Rule{ID: id + "-closed", Paths: []string{"/closed"}, OnFailure: rules.FailClosed, Bands: hourly(100)},
		rules.Rule{ID: id + "-wait", Paths: []string{"/wait"}, OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{
			{Capacity: 1, Refill: 20 * time.Millisecond}}},
		rules.Rule{ID: id + "-long", Paths: []string{"/long"}, OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{
			{Capacity: 1, Refill: 20 * time.Second}}},
		rules.Rule{ID: id + "-deny", Paths: []string{"/deny"}, Action: rules.ActionDeny},
		rules.Rule{ID: id + "-free", Paths: []string{"/free"}, Action: rules.ActionAllow},
		rules.Rule{ID: id + "-user", Paths: []string{"/user"}, Scope: rules.ScopeUser,
			OnMissingIdentity: rules.MissingRefuse, Bands: hourly(100)},
	)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func newWorld(tb testing.TB, config telemetry.Config) *world {
	tb.Helper()
	w := &world{source: memrules.New(memrules.Config{})}
	if _, err := w.source.Put(tb.Context(), ruleSet(tb, "api"), rules.Change{Author: "test"}); err != nil {
		tb.Fatal(err)
	}
	var err error
	if w.rules, err = reload.Start(tb.Context(), w.source, reload.Config{RuleSets: []string{"api"}, Interval: time.Hour}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.rules.Close() })
	still := time.Now() // buckets do not refill, however slow the test is
	w.store = &fickle{Store: fluxgate.Must(memstore.New(memstore.Config{Clock: func() time.Time { return still }}))}
	tb.Cleanup(func() { w.store.Close() })
	config.RuleSet = "api"
	w.metrics = telemetry.New(config)
	w.metrics.WatchRules(w.rules, time.Hour)
	w.engine, err = fluxgate.New(w.store, w.rules, fluxgate.WithRuleSet("api"), fluxgate.WithObserver(w.metrics),
		fluxgate.WithWaiting(30*time.Second, 10), fluxgate.WithOnFailure(rules.FailOpen))
	if err != nil {
		tb.Fatal(err)
	}
	w.limiter = w.metrics.Limiter(w.engine)
	return w
}

func (w *world) check(tb testing.TB, req fluxgate.Request) fluxgate.Decision {
	tb.Helper()
	req.IP = here
	d, err := w.limiter.Check(tb.Context(), &req)
	if err != nil {
		tb.Fatalf("checking %s: %v", req.Path, err)
	}
	return d
}

// exercise makes everything happen that a metric counts.
func (w *world) exercise(tb testing.TB) {
	tb.Helper()
	for range 7 {
		w.check(tb, fluxgate.Request{Path: "/api/users"})
	}
	for _, path := range []string{"/nothing", "/deny", "/free", "/user", "/wait", "/wait"} {
		w.check(tb, fluxgate.Request{Path: path})
	}
	w.check(tb, fluxgate.Request{Path: "/user", UserID: "ada", Cost: 1_000})
	w.check(tb, fluxgate.Request{Path: "/user", UserID: "ada", Peek: true})
	w.check(tb, fluxgate.Request{Path: "/api", RuleSet: "what-the-caller-wrote"})
	d := w.check(tb, fluxgate.Request{Path: "/user", UserID: "bob", Cost: 10})
	if _, err := w.limiter.Settle(tb.Context(), d.Receipt(), 4); err != nil {
		tb.Fatal(err)
	}
	if _, err := w.limiter.Check(tb.Context(), &fluxgate.Request{Cost: -1, RuleSet: "also-of-the-caller"}); err == nil {
		tb.Fatal("a negative cost was decided")
	}
	w.metrics.Warned("orders", "delivered")
	w.metrics.Decided(tb.Context(), &fluxgate.Request{RuleSet: "once-more-of-the-caller"}, &fluxgate.Decision{}, fluxgate.ErrTooManyRules)
	d = w.check(tb, fluxgate.Request{Path: "/user", UserID: "eve"})
	w.store.away.Store(true)
	w.check(tb, fluxgate.Request{Path: "/closed"})
	w.check(tb, fluxgate.Request{Path: "/api/users"})
	if _, err := w.limiter.Settle(tb.Context(), d.Receipt(), 0); err == nil {
		tb.Fatal("a receipt was settled in a store that is away")
	}
	w.store.away.Store(false)

	routed := w.metrics.Route("POST /v1/check", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("{}")) }))
	routed.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/check", nil))
	for _, err := range []error{nil, status.Error(codes.Unavailable, "what the caller wrote")} {
		_, got := w.metrics.Call(tb.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/service/Call"}, func(context.Context, any) (any, error) { return "answer", err })
		if !errors.Is(got, err) {
			tb.Fatal(got)
		}
	}
}

// watchEverything adds what is known of a store with one healthy server.
func (w *world) watchEverything(tb testing.TB) {
	tb.Helper()
	w.metrics.WatchAudit(func() error { return nil })
	w.metrics.WatchConnections(telemetry.Connections{
		Listener: "http", Limit: 10, Open: func() int64 { return 1 }, OverLimit: func() uint64 { return 0 }, Failed: func() uint64 { return 0 },
	})
	w.metrics.WatchFallback(w.engine.FallbackStats, func() int { return 1 })
	w.metrics.WatchLeases(func() lease.Stats { return lease.Stats{} })
	w.metrics.WatchStore(func(context.Context) redisstore.Health {
		return redisstore.Health{Nodes: []redisstore.NodeHealth{{Addr: "127.0.0.1:6379", Latency: time.Millisecond}}}
	})
}

// scrape is what Prometheus would read: series to value.
func scrape(tb testing.TB, m *telemetry.Metrics) map[string]float64 {
	tb.Helper()
	series := map[string]float64{}
	for line := range strings.Lines(scrapeText(tb, m)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64)
		if err != nil {
			tb.Fatalf("a line of the scrape: %q: %v", line, err)
		}
		series[line[:i]] = value
	}
	return series
}

func scrapeText(tb testing.TB, m *telemetry.Metrics) string {
	tb.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		tb.Fatalf("the scrape was answered %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}
