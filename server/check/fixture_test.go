package check_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is an API over an engine with a fixed clock.
type desk struct {
	testing.TB
	http.Handler
	engine *fluxgate.Engine
	api    *check.API
	issuer *receipt.Issuer
	ahead  atomic.Int64 // of the issuer's clock, in nanoseconds
	now    time.Time    // the issuer's
	failed []error
}

var list = []rules.Rule{
	{ID: "per-user", Scope: rules.ScopeUser, Bands: []rules.Band{
		{Label: "minute", Capacity: 10, Refill: time.Minute}, {Capacity: 100, RefillTokens: 3, Refill: time.Hour},
	}},
	{ID: "planned", Mode: rules.ModeShadow, Bands: []rules.Band{{Label: "day", Capacity: 3, Refill: 24 * time.Hour}}},
	{ID: "per-key", Priority: 1, Paths: []string{"/keys"}, Scope: rules.ScopeAPIKey, OnMissingIdentity: rules.MissingRefuse, Bands: []rules.Band{rules.PerSecond(1)}},
	{ID: "login", Priority: 1, When: rules.When{Descriptor: []rules.DescriptorMatch{{Key: "route", Value: "login"}, {Key: "remote_address"}}},
		Scope: rules.ScopeComposite, KeyFields: []string{"descriptor"}, Bands: []rules.Band{rules.PerMinute(2)}},
	{ID: "blocked", Priority: 9, Action: rules.ActionDeny, Paths: []string{"/blocked"}},
	{ID: "friends", Priority: 9, Action: rules.ActionAllow, Paths: []string{"/friends"}},
}

func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	return fluxgate.Must(memstore.New(memstore.Config{Clock: storetest.NewClock().Now}))
}

func newDesk(t testing.TB, buckets store.Store, options ...fluxgate.Option) *desk {
	t.Helper()
	engine, err := fluxgate.New(buckets, fluxgate.Static(fluxgate.Must(rules.NewSet("api", list...))), options...)
	if err != nil {
		t.Fatal(err)
	}
	return deskOf(t, engine, engine)
}

func deskOf(t testing.TB, engine *fluxgate.Engine, limiter fluxgate.Limiter) *desk {
	t.Helper()
	return deskWith(t, engine, limiter, nil, nil)
}

// deskWith is deskOf with a ledger of receipts and a log.
func deskWith(t testing.TB, engine *fluxgate.Engine, limiter fluxgate.Limiter, ledger receipt.Ledger, log *slog.Logger) *desk {
	t.Helper()
	d := &desk{TB: t, engine: engine, now: time.Now()}
	issuer, err := receipt.NewIssuer(receipt.Config{Now: func() time.Time { return d.now.Add(time.Duration(d.ahead.Load())) }, TTL: time.Minute, Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	api, err := check.New(check.Config{Limiter: limiter, Issuer: issuer, Logger: log, Failed: func(_ *http.Request, err error) { d.failed = append(d.failed, err) }})
	if err != nil {
		t.Fatal(err)
	}
	d.api, d.issuer = api, issuer
	mux := http.NewServeMux()
	for pattern, handler := range api.Routes() {
		mux.Handle(pattern, handler)
	}
	d.Handler = mux
	return d
}

// post is an answer to a body.
func (d *desk) post(path, body string) *httptest.ResponseRecorder {
	d.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	d.ServeHTTP(w, r)
	return w
}

// left is what ann's buckets hold.
func (d *desk) left() [3]int64 {
	d.Helper()
	decision, err := d.engine.Check(context.WithoutCancel(d.Context()), &fluxgate.Request{UserID: "ann", Peek: true})
	if err != nil {
		d.Fatal(err)
	}
	var left [3]int64
	i := 0
	for b := range decision.Bands() {
		left[i] = b.Remaining
		i++
	}
	return left
}

// serve runs a real server, whose answers to slow callers are not worth a log.
func serve(t testing.TB, handler http.Handler, timeout time.Duration) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ReadTimeout, server.Config.ErrorLog = timeout, log.New(failing{t}, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

type failing struct{ testing.TB }

func (f failing) Write(line []byte) (int, error) {
	f.Errorf("the server logs: %s", line)
	return len(line), nil
}

// golden compares with a file. UPDATE_GOLDEN=1 writes it anew.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("got\n%s\nwant, as in %s,\n%s", got, file, want)
	}
}

// away is a store that cannot be reached.
type away struct{ store.Store }

var errAway = errors.New("dial tcp 10.9.8.7:6379: connection refused")

func (away) Take(context.Context, []store.Demand, *store.Outcome) error { return errAway }
func (away) Peek(context.Context, []store.Demand, *store.Outcome) error { return errAway }
