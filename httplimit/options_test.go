package httplimit_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
)

// New refuses invalid options.
func TestNew_InvalidOptions(t *testing.T) {
	for _, c := range []struct {
		name    string
		limiter fluxgate.Limiter
		option  httplimit.Option
		want    string
	}{
		{"no limiter", nil, httplimit.WithRuleSet("x"), "no limiter"},
		{"no paths", new(seen), httplimit.WithPaths(), "at least one pattern"},
		{"a bad path", new(seen), httplimit.WithPaths("/a", "b"), "paths: "},
		{"a bad excluded path", new(seen), httplimit.WithoutPaths("/a**"), "excluded paths: "},
		{"a cost of 0", new(seen), httplimit.WithCost(0), "at least 1 token, not 0"},
		{"a negative cost", new(seen), httplimit.WithCost(-1), "not -1"},
		{"no cost function", new(seen), httplimit.WithCostFunc(nil), "WithCostFunc must not be nil"},
		{"no rule set function", new(seen), httplimit.WithRuleSetFunc(nil), "WithRuleSetFunc must not be nil"},
		{"no resolver", new(seen), httplimit.WithClientIP(nil), "WithClientIP must not be nil"},
		{"no user function", new(seen), httplimit.WithUserFunc(nil), "WithUserFunc must not be nil"},
		{"no key function", new(seen), httplimit.WithAPIKeyFunc(nil), "WithAPIKeyFunc must not be nil"},
		{"no attribute function", new(seen), httplimit.WithAttribute("tenant", nil), `attribute "tenant" must not be nil`},
		{"no attribute name", new(seen), httplimit.WithAttribute("", httplimit.Header("X")), "no name"},
		{"no amend function", new(seen), httplimit.WithAmend(nil), "WithAmend must not be nil"},
		{"no rejection function", new(seen), httplimit.WithRejection(nil), "WithRejection must not be nil"},
		{"no observer", new(seen), httplimit.WithObserver(nil), "observer must not be nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit, err := httplimit.New(c.limiter, c.option)
			if err == nil || limit != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := httplimit.New(nil, httplimit.WithCost(0), httplimit.WithPaths())
		for _, want := range []string{"no limiter", "at least 1 token", "at least one pattern"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q in it", err, want)
			}
		}
	})
}

// Paths are included and excluded by patterns.
func TestOptions_Paths(t *testing.T) {
	api, health := httplimit.WithPaths("/api/**", "/v2/*"), httplimit.WithoutPaths("/health", "/api/health/**")
	for _, c := range []struct {
		name    string
		options []httplimit.Option
		limited []string
		skipped []string
	}{
		{"all by default", nil, []string{"/", "/api/x", "/health", "*"}, nil},
		{"those that are included", []httplimit.Option{api}, []string{"/api", "/api/x/y", "/v2/x"}, []string{"/", "/apix", "/v2/x/y"}},
		{"all but those that are excluded", []httplimit.Option{health}, []string{"/", "/api/x"}, []string{"/health", "/api/health/x"}},
		{"those that are included and not excluded", []httplimit.Option{health, api}, []string{"/api/x"}, []string{"/", "/api/health"}},
		{"those that a router may take for one of them", []httplimit.Option{api, health},
			[]string{"//api/./x", "/x/../api/x", "/%61pi/x", "/api%2Fx", "/api/x/", "/api/../health", "/api/%68ealth", "/v2/", "/v2/a%2Fb", `/v2/a%2Fb"`},
			[]string{"/v2/x/y", "/api/health/../health/x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for skip, paths := range map[bool][]string{false: c.limited, true: c.skipped} {
				for _, path := range paths {
					limiter, observer := new(seen), new(recorder)
					handler := newLimit(t, limiter, append(c.options, httplimit.WithObserver(observer))...)(hello)
					r := get("/")
					parsed, err := r.URL.Parse(path)
					if err != nil {
						t.Fatal(err)
					}
					if r.URL = parsed; path[0] == '/' { // Parse would resolve the dots
						r = httptest.NewRequest(http.MethodGet, "http://host"+path, http.NoBody)
					}
					response := record(handler, r)
					if skipped := len(limiter.requests) == 0; skipped != skip || response.StatusCode != http.StatusOK {
						t.Errorf("%s is skipped: %t, want %t; status %d", path, skipped, skip, response.StatusCode)
					}
					if skipped := strings.HasPrefix(observer.calls[0], "skipped"); skipped != skip || len(observer.calls) != 1 {
						t.Errorf("%s: the observer is told %q", path, observer.calls)
					}
				}
			}
		})
	}
}

// The limiter gets the properties of the request.
func TestMiddleware_Request(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "http://api.example.com:8080/a%2Fb/../c?page=2", http.NoBody)
	r.RemoteAddr = "192.0.2.7:4711"
	r.Header.Set("X-Tenant", "acme")
	got := limiterRequest(t, r)
	if got.Method != http.MethodPost || got.Path != "/a%2Fb/../c" || got.Host != "api.example.com:8080" ||
		got.IP != netip.MustParseAddr("192.0.2.7") || got.Headers["X-Tenant"][0] != "acme" {
		t.Errorf("asked about %+v", got)
	}
	if got.RuleSet != "" || got.UserID != "" || got.APIKey != "" || got.Attributes != nil || got.Cost != 0 || got.Peek {
		t.Errorf("made up in %+v", got)
	}
}

// A reused request has no fields of the former one.
func TestMiddleware_RequestReuse(t *testing.T) {
	limiter := new(seen)
	handler := newLimit(t, limiter, httplimit.WithAmend(func(r *http.Request, req *fluxgate.Request) error {
		if r.URL.Path == "/first" {
			*req = fluxgate.Request{RuleSet: "x", UserID: "x", APIKey: "x", Attributes: map[string]string{"x": "x"}, Cost: 7, Peek: true}
		}
		return nil
	}))(hello)
	record(handler, get("/first"))
	record(handler, get("/second"))
	got := limiter.requests[1]
	if got.RuleSet != "" || got.UserID != "" || got.APIKey != "" || got.Attributes != nil || got.Cost != 0 || got.Peek || got.Path != "/second" {
		t.Errorf("asked about %+v", got)
	}
}

// Options set the fields of a request.
func TestOptions_Request(t *testing.T) {
	resolver, err := clientip.New(clientip.Config{TrustedProxies: []string{"192.0.2.1"}})
	if err != nil {
		t.Fatal(err)
	}
	header := httplimit.Header
	for _, c := range []struct {
		name    string
		option  httplimit.Option
		headers []string
		want    func(fluxgate.Request) bool
	}{
		{"a rule set", httplimit.WithRuleSet("exports"), nil, func(r fluxgate.Request) bool { return r.RuleSet == "exports" }},
		{"a rule set by request", httplimit.WithRuleSetFunc(header("X-Set")), []string{"X-Set: gold"}, func(r fluxgate.Request) bool { return r.RuleSet == "gold" }},
		{"a cost", httplimit.WithCost(12), nil, func(r fluxgate.Request) bool { return r.Cost == 12 && !r.Peek }},
		{"a cost by request", httplimit.WithCostFunc(func(r *http.Request) int64 { return int64(len(r.URL.Path)) }), nil, func(r fluxgate.Request) bool { return r.Cost == 5 && !r.Peek }},
		{"a cost of 0 by request", httplimit.WithCostFunc(func(*http.Request) int64 { return 0 }), nil, func(r fluxgate.Request) bool { return r.Cost == 0 && r.Peek }},
		{"trusted proxies", httplimit.WithClientIP(resolver), []string{"X-Forwarded-For: 203.0.113.9"}, func(r fluxgate.Request) bool { return r.IP == netip.MustParseAddr("203.0.113.9") }},
		{"a user", httplimit.WithUserFunc(header("X-User")), []string{"X-User: ann"}, func(r fluxgate.Request) bool { return r.UserID == "ann" }},
		{"an API key", httplimit.WithAPIKeyFunc(header("x-api-key")), []string{"X-API-Key: k1"}, func(r fluxgate.Request) bool { return r.APIKey == "k1" }},
		{"no API key", httplimit.WithAPIKeyFunc(header("X-API-Key")), nil, func(r fluxgate.Request) bool { return r.APIKey == "" }},
		{"a bearer token", httplimit.WithAPIKeyFunc(httplimit.BearerToken), []string{"Authorization: bearer  t0ken"}, func(r fluxgate.Request) bool { return r.APIKey == "t0ken" }},
		{"another scheme", httplimit.WithAPIKeyFunc(httplimit.BearerToken), []string{"Authorization: Basic t0ken"}, func(r fluxgate.Request) bool { return r.APIKey == "" }},
		{"a scheme alone", httplimit.WithAPIKeyFunc(httplimit.BearerToken), []string{"Authorization: Bearer"}, func(r fluxgate.Request) bool { return r.APIKey == "" }},
		{"an attribute", httplimit.WithAttribute("tenant", header("X-Tenant")), []string{"X-Tenant: acme"}, func(r fluxgate.Request) bool { return maps.Equal(r.Attributes, map[string]string{"tenant": "acme"}) }},
		{"an attribute that is not there", httplimit.WithAttribute("tenant", header("X-Tenant")), nil, func(r fluxgate.Request) bool { return r.Attributes == nil }},
		{"anything", httplimit.WithAmend(func(r *http.Request, req *fluxgate.Request) error {
			req.Attributes = map[string]string{"q": r.URL.RawQuery}
			return nil
		}), nil, func(r fluxgate.Request) bool { return r.Attributes["q"] == "page=2" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := limiterRequest(t, get("/path?page=2", c.headers...), c.option); !c.want(got) {
				t.Errorf("asked about %+v", got)
			}
		})
	}
}

// WithAmend is called last.
func TestOptions_Amend(t *testing.T) {
	got := limiterRequest(t, get("/", "X-User: ann", "X-Tenant: acme"), httplimit.WithAmend(func(_ *http.Request, req *fluxgate.Request) error {
		req.UserID += "@" + req.Attributes["tenant"]
		req.Cost *= 2
		return nil
	}), httplimit.WithUserFunc(httplimit.Header("X-User")), httplimit.WithAttribute("tenant", httplimit.Header("X-Tenant")), httplimit.WithCost(3))
	if got.UserID != "ann@acme" || got.Cost != 6 {
		t.Errorf("asked about %+v", got)
	}
}

// Headers can be switched off.
func TestOptions_HeadersOff(t *testing.T) {
	x, ietf := []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}, []string{"Ratelimit", "Ratelimit-Policy"}
	for _, c := range []struct {
		name    string
		options []httplimit.Option
		want    []string
	}{
		{"by default all are on", nil, append(slices.Clone(ietf), x...)},
		{"without the IETF's", []httplimit.Option{httplimit.WithIETFHeaders(false)}, x},
		{"without the older ones", []httplimit.Option{httplimit.WithXHeaders(false)}, ietf},
		{"without any", []httplimit.Option{httplimit.WithXHeaders(false), httplimit.WithIETFHeaders(false)}, nil},
		{"on again", []httplimit.Option{httplimit.WithXHeaders(false), httplimit.WithXHeaders(true), httplimit.WithIETFHeaders(false), httplimit.WithIETFHeaders(true)}, append(slices.Clone(ietf), x...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			handler := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 1)}), c.options...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			if got := slices.Sorted(maps.Keys(record(handler, get("/")).Header)); !slices.Equal(got, c.want) {
				t.Errorf("headers %q, want %q", got, c.want)
			}
		})
	}
}

// Several limiters with their own rule sets.
func TestMiddleware_SeveralRuleSets(t *testing.T) {
	engine, err := fluxgate.New(newStore(t), fluxgate.Static(ruleSet(t, "everyone", perHour("all", 3)), ruleSet(t, "exports", perHour("export", 4))))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/export", newLimit(t, engine, httplimit.WithRuleSet("exports"), httplimit.WithCost(2))(hello))
	mux.Handle("/", hello)
	handler := newLimit(t, engine, httplimit.WithRuleSet("everyone"))(mux)
	if got := statuses(handler, 3, "/export"); !slices.Equal(got, []int{200, 200, 429}) {
		t.Errorf("the route answers %v", got)
	}
	if got := statuses(handler, 1, "/"); !slices.Equal(got, []int{429}) {
		t.Errorf("the rest answers %v", got)
	}
}

// A request with cost 0 passes an empty band.
func TestOptions_ZeroCost(t *testing.T) {
	handler := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 1)}), httplimit.WithCostFunc(func(r *http.Request) int64 {
		if r.URL.Path == "/free" {
			return 0
		}
		return 1
	}))(hello)
	got := append(statuses(handler, 2, "/"), statuses(handler, 2, "/free")...)
	if !slices.Equal(got, []int{200, 429, 200, 200}) {
		t.Errorf("statuses %v", got)
	}
}

// An error of a user's function fails the request.
func TestHook_Error(t *testing.T) {
	for name, option := range map[string]httplimit.Option{
		"an amendment that fails":   httplimit.WithAmend(func(*http.Request, *fluxgate.Request) error { return errors.New("no plan") }),
		"a cost that is impossible": httplimit.WithCostFunc(func(*http.Request) int64 { return -1 }),
	} {
		t.Run(name, func(t *testing.T) {
			observer := new(recorder)
			handler := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 1)}), option, httplimit.WithObserver(observer))(hello)
			if response := record(handler, get("/")); response.StatusCode != http.StatusInternalServerError || !slices.Equal(observer.calls, []string{"failed /"}) {
				t.Errorf("status %d, told %q", response.StatusCode, observer.calls)
			}
		})
	}
}

// The handler may take another line than the limiter for the caller, so that one caller
// would have two buckets.
func TestHeader_SeveralLinesAreRefused(t *testing.T) {
	for name, option := range map[string]httplimit.Option{
		"user":      httplimit.WithUserFunc(httplimit.Header("X-Caller")),
		"API key":   httplimit.WithAPIKeyFunc(httplimit.Header("x-caller")),
		"attribute": httplimit.WithAttribute("tenant", httplimit.Header("X-Caller")),
		"token":     httplimit.WithAPIKeyFunc(httplimit.BearerToken),
	} {
		t.Run(name, func(t *testing.T) {
			limiter := new(seen)
			handler := newLimit(t, limiter, option)(hello)
			for lines, want := range map[int]int{0: http.StatusOK, 1: http.StatusOK, 2: http.StatusBadRequest} {
				r := get("/")
				for range lines {
					r.Header.Add("X-Caller", "ada")
					r.Header.Add("Authorization", "Bearer ada")
				}
				if response := record(handler, r); response.StatusCode != want {
					t.Errorf("%d lines: status %d, want %d", lines, response.StatusCode, want)
				}
			}
			if len(limiter.requests) != 2 {
				t.Errorf("the limiter is asked %d times, want 2", len(limiter.requests))
			}
		})
	}
}
