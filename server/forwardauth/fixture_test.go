package forwardauth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/forwardauth"
	"github.com/fluxgate/fluxgate/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }

func newHandler(t testing.TB, limiter fluxgate.Limiter, config forwardauth.Config) *forwardauth.Handler {
	t.Helper()
	handler, err := forwardauth.New(limiter, config)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// asking is the question of a proxy on loopback about GET /items, with headers
// given as "Name: value"; "Name:" removes one.
func asking(query string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, forwardauth.Path+query, http.NoBody)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("X-Forwarded-Method", http.MethodGet)
	r.Header.Set("X-Forwarded-Uri", "/items")
	set := map[string]bool{"X-Forwarded-Method": true, "X-Forwarded-Uri": true}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ":")
		if name = http.CanonicalHeaderKey(name); set[name] {
			r.Header.Del(name)
			set[name] = false
		}
		if value != "" {
			r.Header.Add(name, strings.TrimSpace(value))
		}
	}
	return r
}

func record(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder
}

// limiterFunc is a limiter that is a function.
type limiterFunc func(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error)

func (f limiterFunc) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	return f(ctx, req)
}

func (limiterFunc) Extend(context.Context, *fluxgate.Receipt) error { return nil }

func (limiterFunc) Settle(context.Context, *fluxgate.Receipt, int64) (store.Settlement, error) {
	return store.Settlement{}, nil
}

func (limiterFunc) SettleUsage(context.Context, *fluxgate.Receipt, *fluxgate.Usage) (map[string]store.Settlement, error) {
	return nil, nil
}

// deciding is a limiter whose answer is always the same.
func deciding(d fluxgate.Decision) limiterFunc {
	return func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) { return d, nil }
}

// described is what a limiter is asked when a proxy asks.
func described(t testing.TB, config forwardauth.Config, r *http.Request) fluxgate.Request {
	t.Helper()
	var seen []fluxgate.Request
	handler := newHandler(t, limiterFunc(func(_ context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
		seen = append(seen, *req)
		return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
	}), config)
	if answer := record(handler, r); answer.Code != http.StatusNoContent {
		t.Fatalf("the answer is %d %s", answer.Code, answer.Body)
	}
	if len(seen) != 1 {
		t.Fatalf("the limiter is asked %d times", len(seen))
	}
	return seen[0]
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
