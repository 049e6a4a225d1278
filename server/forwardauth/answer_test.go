package forwardauth_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/forwardauth"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// newEngine is an engine that allows one request an hour.
func newEngine(t *testing.T) *fluxgate.Engine {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.NewSet("api", rules.Rule{ID: "all", Bands: []rules.Band{{Label: "hour", Capacity: 1, Refill: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set))
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// Answers have the rate limit headers.
func TestHandler_LimitHeaders(t *testing.T) {
	handler := newHandler(t, newEngine(t), forwardauth.Config{})
	allowed, rejected := record(handler, asking("")), record(handler, asking(""))
	if allowed.Code != http.StatusNoContent || rejected.Code != http.StatusTooManyRequests {
		t.Fatalf("%d, then %d", allowed.Code, rejected.Code)
	}
	for _, answer := range []*httptest.ResponseRecorder{allowed, rejected} {
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"} {
			if answer.Header().Get(name) == "" {
				t.Errorf("%d has no %s", answer.Code, name)
			}
		}
		if answer.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d may be cached", answer.Code)
		}
	}
	if allowed.Header().Get("X-Fluxgate-Status") != "" || allowed.Header().Get("Retry-After") != "" {
		t.Errorf("the one that passes has %v", allowed.Header())
	}
}

// Rejections have the status that the proxy wants.
func TestHandler_Rejections(t *testing.T) {
	for _, rejected := range []struct {
		decision fluxgate.Decision
		own      int
		retry    string
	}{
		{fluxgate.Decision{Reason: fluxgate.ReasonLimited, RuleID: "per-ip", Band: "minute", Limit: 100, RetryAfter: 1500 * time.Millisecond}, http.StatusTooManyRequests, "2"},
		{fluxgate.Decision{Reason: fluxgate.ReasonDenied}, http.StatusForbidden, ""},
		{fluxgate.Decision{Reason: fluxgate.ReasonStoreFailure}, http.StatusServiceUnavailable, ""},
	} {
		for _, how := range []struct {
			query      string
			configured int
			status     int // 0 means its own
		}{
			{"", 0, 0},
			{"", http.StatusTooManyRequests, 0},
			{"", http.StatusForbidden, http.StatusForbidden},
			{"?deny=403", 0, http.StatusForbidden},
			{"?deny=401", http.StatusForbidden, http.StatusUnauthorized},
			{"?deny=429", http.StatusForbidden, 0},
		} {
			answer := record(newHandler(t, deciding(rejected.decision), forwardauth.Config{DenyStatus: how.configured}), asking(how.query))
			own, status, problem := strconv.Itoa(rejected.own), how.status, answer.Body.String()
			if status == 0 {
				status, problem = rejected.own, ""
			}
			header := answer.Header()
			if answer.Code != status || header.Get("X-Fluxgate-Status") != own || header.Get(forwardauth.ProblemHeader) != problem || header.Get("Retry-After") != rejected.retry {
				t.Errorf("%s with %+v: %d %v", rejected.decision.Reason, how, answer.Code, header)
			}
			if !strings.Contains(answer.Body.String(), `"status":`+own) {
				t.Errorf("%s with %+v: %s", rejected.decision.Reason, how, answer.Body)
			}
		}
	}
}

// The header with the status can have another name.
func TestHandler_DenyHeader(t *testing.T) {
	handler := newHandler(t, deciding(fluxgate.Decision{Reason: fluxgate.ReasonDenied}), forwardauth.Config{DenyHeader: "x-mark"})
	if answer := record(handler, asking("")); answer.Header().Get("X-Mark") != "403" || answer.Header().Get("X-Fluxgate-Status") != "" {
		t.Errorf("%v", answer.Header())
	}
}

// Without a decision the answer is 5xx without the status header.
func TestHandler_NoDecision(t *testing.T) {
	failing := limiterFunc(func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
		return fluxgate.Decision{}, errors.New("secret of the house")
	})
	panicking := limiterFunc(func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) { panic("secret of the house") })
	for _, limiter := range []limiterFunc{failing, panicking} {
		for _, query := range []string{"", "?deny=403"} {
			observer := new(failures)
			answer := record(newHandler(t, limiter, forwardauth.Config{Options: []httplimit.Option{httplimit.WithObserver(observer)}}), asking(query, "X-Forwarded-Method: PUT"))
			if answer.Code != http.StatusInternalServerError || answer.Header().Get("X-Fluxgate-Status") != "" || strings.Contains(answer.Body.String(), "secret") {
				t.Errorf("%s: %d %v %s", query, answer.Code, answer.Header(), answer.Body)
			}
			if observer.failed != "PUT /items" {
				t.Errorf("the observer hears of %q", observer.failed)
			}
		}
	}
}

type failures struct{ failed string }

func (*failures) Decided(*http.Request, *fluxgate.Decision) {}
func (*failures) Skipped(*http.Request)                     {}
func (f *failures) Failed(r *http.Request, _ error)         { f.failed = r.Method + " " + r.URL.Path }

// Options see the client's request.
func TestHandler_Options(t *testing.T) {
	handler := newHandler(t, deciding(fluxgate.Decision{Reason: fluxgate.ReasonDenied}), forwardauth.Config{
		Options: []httplimit.Option{httplimit.WithPaths("/api/**"), httplimit.WithoutPaths("/api/health")},
	})
	for uri, status := range map[string]int{
		"/api/a": http.StatusForbidden, "/api/health?": http.StatusNoContent, "/web": http.StatusNoContent, "/web/../api/a": http.StatusForbidden,
	} {
		if answer := record(handler, asking("", "X-Forwarded-Uri: "+uri)); answer.Code != status {
			t.Errorf("%s: %d", uri, answer.Code)
		}
	}
}

// The answer to a GET about a HEAD, as nginx sends it, has a body.
func TestHandler_ClientMethod(t *testing.T) {
	server := httptest.NewServer(newHandler(t, deciding(fluxgate.Decision{Reason: fluxgate.ReasonDenied}), forwardauth.Config{}))
	defer server.Close()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	for range 2 {
		r := asking("", "X-Forwarded-Method: HEAD")
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", server.Listener.Addr().String()
		res, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !bytes.Contains(body, []byte("denied")) {
			t.Errorf("%v %s", err, body)
		}
	}
}

// An invalid configuration is refused with all problems.
func TestNew_InvalidConfig(t *testing.T) {
	for _, test := range []struct {
		config forwardauth.Config
		said   string
	}{
		{forwardauth.Config{DenyStatus: 418}, "418"},
		{forwardauth.Config{DenyStatus: 200}, "200"},
		{forwardauth.Config{MethodHeader: "X Method"}, `"X Method"`},
		{forwardauth.Config{UserHeader: "X-User:"}, `"X-User:"`},
		{forwardauth.Config{Attributes: map[string]string{"tenant": ""}}, "tenant"},
		{forwardauth.Config{Attributes: map[string]string{"tenant": "a b"}}, `"a b"`},
		{forwardauth.Config{Proxies: clientip.Config{TrustedProxies: []string{"0.0.0.0/0"}}}, "0.0.0.0/0"},
		{forwardauth.Config{Options: []httplimit.Option{httplimit.WithCost(-1)}}, "-1"},
	} {
		if _, err := forwardauth.New(newEngine(t), test.config); err == nil || !strings.Contains(err.Error(), test.said) {
			t.Errorf("%+v: %v", test.config, err)
		}
	}
	if _, err := forwardauth.New(nil, forwardauth.Config{}); err == nil {
		t.Error("there is nobody to ask")
	}
}

// Any headers that a proxy forwards: the request is decided or refused, and never
// fails.
func FuzzQuestion(f *testing.F) {
	f.Add("ruleSet=a&deny=403", "GET", "/a/../b?c", "example.org", "192.0.2.1, 10.0.0.1")
	f.Add("", "OPTIONS", "*", "[::1]:80", "")
	f.Add("deny=1", "", "http://a:b@c/d", "", "unknown")
	f.Fuzz(func(t *testing.T, query, method, uri, host, forwardedFor string) {
		handler := newHandler(t, deciding(fluxgate.Decision{Reason: fluxgate.ReasonDenied}), forwardauth.Config{})
		r := asking("")
		r.URL.RawQuery = query
		for name, value := range map[string]string{"X-Forwarded-Method": method, "X-Forwarded-Uri": uri, "X-Forwarded-Host": host, "X-Forwarded-For": forwardedFor} {
			r.Header[name] = []string{value}
		}
		answer := record(handler, r)
		if code := answer.Code; code != http.StatusBadRequest && code != http.StatusForbidden && code != http.StatusUnauthorized {
			t.Errorf("%d %s", code, answer.Body)
		}
		var sent bytes.Buffer
		if err := answer.Result().Write(&sent); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(&sent), nil)
		if err != nil {
			t.Fatalf("the answer is not HTTP: %v", err)
		}
		_ = res.Body.Close()
	})
}
