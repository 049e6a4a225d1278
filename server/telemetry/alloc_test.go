package telemetry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store"
)

// decisions are what a busy gateway observes, made by a real engine.
func decisions(tb testing.TB) map[string]seen {
	tb.Helper()
	w := newWorld(tb, telemetry.Config{})
	all := map[string]seen{}
	for name, req := range map[string]fluxgate.Request{
		"two rules, one of them in shadow": {Path: "/api/users"},
		"one rule":                         {Path: "/closed"},
		"no rule":                          {Path: "/nothing"},
		"no rule set":                      {Path: "/api", RuleSet: "nobody-has-it"},
	} {
		for range 10 { // until it is limited, where it can be
			all[name] = seen{req, w.check(tb, req), nil}
		}
	}
	all["no decision"] = seen{fluxgate.Request{RuleSet: "api"}, fluxgate.Decision{}, fluxgate.ErrCost}
	all["a caller that has gone"] = seen{fluxgate.Request{}, fluxgate.Decision{}, context.Canceled}
	return all
}

type seen struct {
	req fluxgate.Request
	d   fluxgate.Decision
	err error
}

// A decision is counted without an allocation.
func TestMetrics_Allocations(t *testing.T) {
	m := telemetry.New(telemetry.Config{RuleSet: "api", MaxRules: 1})
	// The one label there is is taken: what does not fit must not cost more.
	m.Decided(t.Context(), &fluxgate.Request{}, &fluxgate.Decision{Reason: fluxgate.ReasonLimited, RuleID: "first", Band: "b"}, nil)
	for name, s := range decisions(t) {
		if n := testing.AllocsPerRun(1_000, func() { m.Decided(t.Context(), &s.req, &s.d, s.err) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
	rest := map[string]func(){
		"waiting":      func() { m.Waiting(t.Context(), 1); m.Waiting(t.Context(), -1) },
		"settled":      func() { m.Settled(t.Context(), store.Settlement{Returned: 1}, nil) },
		"store failed": func() { m.StoreFailed(t.Context(), errors.ErrUnsupported) },
	}
	limiter, req := m.Limiter(answers{d: fluxgate.Decision{Allowed: true}}), &fluxgate.Request{}
	rest["timing"] = func() { _, _ = limiter.Check(t.Context(), req) }
	for name, f := range rest {
		if n := testing.AllocsPerRun(1_000, f); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

// Without an endpoint there are no spans.
func TestTracing_Off(t *testing.T) {
	off, err := telemetry.NewTracing(t.Context(), telemetry.TracingConfig{SampleRatio: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tracing := range []*telemetry.Tracing{off, nil} {
		m := telemetry.New(telemetry.Config{Tracing: tracing})
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		m.Route("/", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r != req {
				t.Error("the request is a copy")
			}
			m.Decided(r.Context(), &fluxgate.Request{}, &fluxgate.Decision{}, nil)
		})).ServeHTTP(httptest.NewRecorder(), req)
		if err := tracing.Shutdown(t.Context()); err != nil || tracing.Enabled() {
			t.Errorf("tracing that is off: %v, enabled %v", err, tracing.Enabled())
		}
	}
}

func BenchmarkDecided(b *testing.B) {
	m := telemetry.New(telemetry.Config{RuleSet: "api"})
	for name, s := range decisions(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx, req, d := context.Background(), s.req, s.d
				for pb.Next() {
					m.Decided(ctx, &req, &d, s.err)
				}
			})
		})
	}
}

func BenchmarkRoute(b *testing.B) {
	m := telemetry.New(telemetry.Config{})
	h := m.Route("POST /v1/check", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/check", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
