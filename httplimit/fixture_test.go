package httplimit_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }

// newStore returns a store in memory with a fixed clock.
func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Config{Clock: storetest.NewClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func ruleSet(t testing.TB, id string, list ...rules.Rule) *rules.Set {
	t.Helper()
	set, err := rules.NewSet(id, list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// newEngine returns an engine over a store in memory with a fixed clock.
func newEngine(t testing.TB, list []rules.Rule, options ...fluxgate.Option) *fluxgate.Engine {
	t.Helper()
	return engineOver(t, newStore(t), list, options...)
}

func engineOver(t testing.TB, buckets store.Store, list []rules.Rule, options ...fluxgate.Option) *fluxgate.Engine {
	t.Helper()
	engine, err := fluxgate.New(buckets, fluxgate.Static(ruleSet(t, "api", list...)), options...)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func newLimit(t testing.TB, limiter fluxgate.Limiter, options ...httplimit.Option) httplimit.Middleware {
	t.Helper()
	limit, err := httplimit.New(limiter, options...)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// perHour is a rule for everyone with one band of n an hour.
func perHour(id string, n int64) rules.Rule {
	return rules.Rule{ID: id, Bands: []rules.Band{{Label: "hour", Capacity: n, Refill: time.Hour}}}
}

// with changes a rule.
func with(r rules.Rule, change func(*rules.Rule)) rules.Rule {
	change(&r)
	return r
}

// hello is the handler behind most middlewares.
var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })

// serve runs a real server until the test ends. What it logs is an error of
// the test.
func serve(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(failing{t}, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

type failing struct{ testing.TB }

func (f failing) Write(line []byte) (int, error) {
	f.Errorf("the server logs: %s", line)
	return len(line), nil
}

// answer is what a handler has written.
type answer struct {
	StatusCode int
	Header     http.Header
	Body       *bytes.Buffer
}

// record has a handler answer a request without a server.
func record(handler http.Handler, request *http.Request) answer {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return answer{recorder.Code, recorder.Header(), recorder.Body}
}

// get is a GET of a path, with headers given as "Name: value".
func get(path string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// statuses are those of so many equal requests.
func statuses(handler http.Handler, n int, path string) []int {
	var all []int
	for range n {
		all = append(all, record(handler, get(path)).StatusCode)
	}
	return all
}

// seen is a limiter that remembers what it is asked and allows everything.
type seen struct{ requests []fluxgate.Request }

func (s *seen) Check(_ context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	s.requests = append(s.requests, *req)
	return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
}

func (*seen) Extend(context.Context, *fluxgate.Receipt) error { return nil }

func (s *seen) Settle(context.Context, *fluxgate.Receipt, int64) (store.Settlement, error) {
	return store.Settlement{}, nil
}

func (s *seen) SettleUsage(context.Context, *fluxgate.Receipt, *fluxgate.Usage) (map[string]store.Settlement, error) {
	return nil, nil
}

// limiterRequest returns the request that a middleware passes to its limiter.
func limiterRequest(t testing.TB, r *http.Request, options ...httplimit.Option) fluxgate.Request {
	t.Helper()
	s := new(seen)
	record(newLimit(t, s, options...)(hello), r)
	if len(s.requests) != 1 {
		t.Fatalf("the limiter was called %d times", len(s.requests))
	}
	return s.requests[0]
}
