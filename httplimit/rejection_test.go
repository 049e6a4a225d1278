package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// limiterFunc decides with a function.
type limiterFunc func(context.Context) (fluxgate.Decision, error)

func (f limiterFunc) Check(ctx context.Context, _ *fluxgate.Request) (fluxgate.Decision, error) {
	return f(ctx)
}

func (limiterFunc) Extend(context.Context, *fluxgate.Receipt) error { return nil }

func (limiterFunc) Settle(context.Context, *fluxgate.Receipt, int64) (store.Settlement, error) {
	return store.Settlement{}, nil
}

func (limiterFunc) SettleUsage(context.Context, *fluxgate.Receipt, *fluxgate.Usage) (map[string]store.Settlement, error) {
	return nil, nil
}

func decided(d fluxgate.Decision) limiterFunc {
	return func(context.Context) (fluxgate.Decision, error) { return d, nil }
}

func problemOf(t *testing.T, response answer) httplimit.Problem {
	t.Helper()
	var p httplimit.Problem
	if err := json.NewDecoder(response.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

// The status of every reason.
func TestRejection_StatusOfReasons(t *testing.T) {
	for reason, want := range map[fluxgate.Reason]int{
		fluxgate.ReasonLimited: 429, fluxgate.ReasonCostTooHigh: 429, fluxgate.ReasonDenied: 403, fluxgate.ReasonMissingIdentity: 403,
		fluxgate.ReasonNoRule: 403, fluxgate.ReasonNoRuleSet: 503, fluxgate.ReasonStoreFailure: 503, "a reason of tomorrow": 429,
	} {
		ran := false
		response := record(newLimit(t, decided(fluxgate.Decision{Reason: reason}))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true })), get("/"))
		p := problemOf(t, response)
		if response.StatusCode != want || p.Status != want || p.Reason != reason || p.Title == "" || ran {
			t.Errorf("%s: status %d, problem %+v, handler ran %t; want %d", reason, response.StatusCode, p, ran, want)
		}
		if response.Header.Get("Retry-After") != "" {
			t.Errorf("%s: Retry-After though nobody knows when", reason)
		}
	}
}

// The status of every failure.
func TestRejection_StatusOfFailures(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
		body string
	}{
		{"a hook", t.Context(), fmt.Errorf("%w: secret", fluxgate.ErrHook), 500, `{"title":"Internal Server Error","status":500}`},
		{"too many rules", t.Context(), fluxgate.ErrTooManyRules, 500, `{"title":"Internal Server Error","status":500}`},
		{"anything", t.Context(), errors.New("secret"), 500, `{"title":"Internal Server Error","status":500}`},
		{"somebody else's end", t.Context(), context.Canceled, 500, `{"title":"Internal Server Error","status":500}`},
		{"a client that has gone", gone, context.Canceled, httplimit.StatusClientClosedRequest, ""},
		{"a request that is late", late, context.DeadlineExceeded, 503, `{"title":"Service Unavailable","status":503,"detail":"The deadline of the request passed before it was decided."}`},
		{"a hook of a client that has gone", gone, fluxgate.ErrHook, 500, `{"title":"Internal Server Error","status":500}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			observer, ran := new(recorder), false
			limiter := limiterFunc(func(context.Context) (fluxgate.Decision, error) { return fluxgate.Decision{}, c.err })
			handler := newLimit(t, limiter, httplimit.WithObserver(observer))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
			response := record(handler, get("/").WithContext(c.ctx))
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != c.want || string(body) != c.body || ran {
				t.Errorf("status %d with %s, handler ran %t; want %d with %s", response.StatusCode, body, ran, c.want, c.body)
			}
			if len(observer.errs) != 1 || !errors.Is(observer.errs[0], c.err) {
				t.Errorf("told of %v", observer.errs)
			}
		})
	}
}

// A rejection names the violated policies.
func TestRejection_ViolatedPolicies(t *testing.T) {
	shadow := with(perHour("planned", 1), func(r *rules.Rule) { r.Mode = rules.ModeShadow })
	list := []rules.Rule{shadow, perHour("wide", 100), {
		ID: "narrow", Bands: []rules.Band{rules.PerMinute(50), rules.PerSecond(2), {Label: "day", Capacity: 3, Refill: 24 * time.Hour}},
	}}
	handler := newLimit(t, newEngine(t, list), httplimit.WithCost(2))(hello)
	record(handler, get("/"))
	response := record(handler, get("/"))
	p := problemOf(t, response)
	if want := []string{"narrow.day", "narrow.2-per-1s"}; !slices.Equal(p.ViolatedPolicies, want) {
		t.Errorf("violated %q, want %q", p.ViolatedPolicies, want)
	}
	if want := "narrow.day has 1 of 3 left, and the request costs 2. Try again in 28800s."; p.Detail != want {
		t.Errorf("detail %q, want %q", p.Detail, want)
	}
	for _, name := range p.ViolatedPolicies {
		if !strings.Contains(response.Header.Get("RateLimit-Policy"), `"`+name+`"`) {
			t.Errorf("%s is not in %s", name, response.Header.Get("RateLimit-Policy"))
		}
	}
}

// A rejection of a caller in debt says how many tokens are owed.
func TestRejection_Debt(t *testing.T) {
	engine := newEngine(t, []rules.Rule{perHour("tokens", 10)})
	d, err := engine.Check(t.Context(), &fluxgate.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Settle(t.Context(), d.Receipt(), 15); err != nil {
		t.Fatal(err)
	}
	p := problemOf(t, record(newLimit(t, engine)(hello), get("/")))
	if want := "tokens.hour owes 5 tokens, and the request costs 1. Try again in 2160s."; p.Detail != want {
		t.Errorf("detail %q, want %q", p.Detail, want)
	}
}

// Violated policies are bounded.
func TestRejection_BoundedPolicies(t *testing.T) {
	var list []rules.Rule
	for i := range 20 {
		list = append(list, perHour(fmt.Sprint("r", i), 1))
	}
	handler := newLimit(t, newEngine(t, list))(hello)
	record(handler, get("/"))
	if p := problemOf(t, record(handler, get("/"))); len(p.ViolatedPolicies) != 8 {
		t.Errorf("violated %q", p.ViolatedPolicies)
	}
}

// A user's function writes the rejection.
func TestRejection_ByUser(t *testing.T) {
	var got *httplimit.Rejection
	limit := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 1)}), httplimit.WithRejection(func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
		got = rejection
		if r.URL.Path == "/problem" {
			rejection.Problem.Detail = "Buy more at https://example.com/plans."
			rejection.Write(w, r)
			return
		}
		w.WriteHeader(rejection.Problem.Status)
		fmt.Fprintf(w, "slow down, %s", r.URL.Path)
	}))
	handler := limit(hello)
	record(handler, get("/"))
	response := record(handler, get("/text"))
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusTooManyRequests || string(body) != "slow down, /text" || response.Header.Get("Retry-After") != "3600" || response.Header.Get("RateLimit") == "" {
		t.Errorf("status %d, headers %v, body %s", response.StatusCode, response.Header, body)
	}
	if got.Decision.RuleID != "r" || got.Decision.Reason != fluxgate.ReasonLimited || got.Err != nil {
		t.Errorf("told of %+v", got)
	}
	if p := problemOf(t, record(handler, get("/problem"))); p.Detail != "Buy more at https://example.com/plans." || p.Status != 429 {
		t.Errorf("problem %+v", p)
	}
}

// A user's rejection also answers failures.
func TestRejection_ByUserForFailures(t *testing.T) {
	limiter := limiterFunc(func(context.Context) (fluxgate.Decision, error) { return fluxgate.Decision{}, fluxgate.ErrTooManyRules })
	handler := newLimit(t, limiter, httplimit.WithObserver(new(recorder)), httplimit.WithRejection(func(w http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
		if !errors.Is(rejection.Err, fluxgate.ErrTooManyRules) || rejection.Decision.Reason != "" {
			t.Errorf("told of %+v", rejection)
		}
		w.WriteHeader(http.StatusTeapot)
	}))(hello)
	if response := record(handler, get("/")); response.StatusCode != http.StatusTeapot {
		t.Errorf("status %d", response.StatusCode)
	}
}

// Headers of another body are removed.
func TestRejection_StaleHeaders(t *testing.T) {
	limit := newLimit(t, decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied}))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Cache-Control", "max-age=3600")
		limit(hello).ServeHTTP(w, r)
	})
	h := record(handler, get("/")).Header
	if h.Get("Content-Encoding") != "" || h.Get("ETag") != "" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", h)
	}
}

// A HEAD request gets no body.
func TestRejection_HeadRequest(t *testing.T) {
	handler := newLimit(t, decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied}))(hello)
	r := get("/")
	want := record(handler, r)
	r.Method = http.MethodHead
	got := record(handler, r)
	if got.Body.Len() != 0 || got.StatusCode != want.StatusCode || got.Header.Get("Content-Length") != strconv.Itoa(want.Body.Len()) {
		t.Errorf("status %d, headers %v, body %s", got.StatusCode, got.Header, got.Body)
	}
}
