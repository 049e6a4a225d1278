package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// Three requests a minute for every address.
func Example() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(3)}}))
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
	limit := fluxgate.Must(httplimit.New(engine))
	server := httptest.NewServer(limit(mux)) // or http.ListenAndServe(":8080", limit(mux))
	defer server.Close()

	for range 4 {
		response, err := http.Get(server.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		response.Body.Close()
		fmt.Println(response.StatusCode, response.Header.Get("RateLimit-Policy"), response.Header.Get("X-RateLimit-Remaining"))
	}
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// 200 "per-ip.3-per-1m";q=3;w=60 2
	// 200 "per-ip.3-per-1m";q=3;w=60 1
	// 200 "per-ip.3-per-1m";q=3;w=60 0
	// 429 "per-ip.3-per-1m";q=3;w=60 0
}

// show sends three requests to a handler and prints the statuses.
func show(handler http.Handler, what, path string, header ...string) {
	fmt.Print(what, ":")
	for range 3 {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(" ", w.Code)
	}
	fmt.Println()
}

// A limit for everything, and a tighter one for one route, whose requests cost
// more.
func ExampleMiddleware_route() {
	everything := fluxgate.Must(rules.NewSet("everything", rules.Rule{ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)}}))
	exports := fluxgate.Must(rules.NewSet("exports", rules.Rule{ID: "rows", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(2_000)}}))
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(everything, exports)))
	user := httplimit.WithUserFunc(func(r *http.Request) string { name, _, _ := r.BasicAuth(); return name })
	export := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "rows") })

	limit := fluxgate.Must(httplimit.New(engine, httplimit.WithRuleSet("everything"), httplimit.WithoutPaths("/health")))
	perExport := fluxgate.Must(httplimit.New(engine, httplimit.WithRuleSet("exports"), httplimit.WithCost(1_000), user))
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	mux.Handle("/export", perExport(export))
	handler := limit(mux)

	show(handler, "export", "/export")
	show(handler, "the rest", "/")
	// Output:
	// export: 200 200 429
	// the rest: 200 200 200
}

// Plans by tenant: everyone has 2 a minute, and premium tenants 4, all users
// of a tenant together. The gateway in front says which tenant and plan it is.
func ExampleWithAttribute() {
	set := fluxgate.Must(rules.Parse([]byte(`{"id": "plans", "rules": [
		{"id": "free", "group": "plan", "limitScope": "CUSTOM", "compositeKeyFields": ["attr:tenant"],
		 "bands": [{"capacity": 2, "refill": "1m"}]},
		{"id": "premium", "group": "plan", "limitScope": "CUSTOM", "compositeKeyFields": ["attr:tenant"],
		 "bands": [{"capacity": 4, "refill": "1m"}],
		 "priority": 10, "when": {"attributes": {"plan": ["premium"]}}}
	]}`)))
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(set)))
	proxies := fluxgate.Must(clientip.New(clientip.Config{TrustedProxies: []string{"10.1.0.0/16"}}))
	limit := fluxgate.Must(httplimit.New(engine,
		httplimit.WithAttribute("tenant", httplimit.Header("X-Tenant")),
		httplimit.WithAttribute("plan", httplimit.Header("X-Plan")),
		httplimit.WithClientIP(proxies),
	))
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))

	show(handler, "acme", "/", "X-Tenant", "acme", "X-Plan", "free")
	show(handler, "initech", "/", "X-Tenant", "initech", "X-Plan", "free")
	show(handler, "globex", "/", "X-Tenant", "globex", "X-Plan", "premium")
	// Output:
	// acme: 200 200 429
	// initech: 200 200 429
	// globex: 200 200 200
}

// Model tokens: a request takes an estimate and settles what it has used.
func ExampleSettle() {
	set := fluxgate.Must(rules.NewSet("llm", rules.Rule{ID: "model-tokens", Scope: rules.ScopeAPIKey, Bands: []rules.Band{rules.PerDay(10_000)}}))
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(set)))
	limit := fluxgate.Must(httplimit.New(engine,
		httplimit.WithAPIKeyFunc(httplimit.BearerToken), httplimit.WithCost(4_000), httplimit.WithSettling(true)))
	handler := limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		used := int64(1_500) // as the model says
		settled, err := httplimit.Settle(r.Context(), used)
		fmt.Println("given back:", settled.Returned, err)
	}))

	r := httptest.NewRequest(http.MethodPost, "/v1/chat", http.NoBody)
	r.Header.Set("Authorization", "Bearer secret")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	// Output: given back: 2500 <nil>
}

// Bytes sent: the handler counts what it writes. A response of unknown size
// takes one token and is charged for the rest.
func ExampleSettle_bytes() {
	set := fluxgate.Must(rules.NewSet("bytes", rules.Rule{ID: "egress", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(1_000_000)}}))
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(set)))
	limit := fluxgate.Must(httplimit.New(engine, httplimit.WithSettling(true)))
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.WriteString(w, "a report of some length")
		settled, err := httplimit.Settle(r.Context(), int64(sent))
		fmt.Println("sent:", sent, "charged:", settled.Charged, err)
	}))

	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output: sent: 23 charged: 22 <nil>
}

// The answer in the words of the service.
func ExampleWithRejection() {
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(1)}}))
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(set)))
	limit := fluxgate.Must(httplimit.New(engine, httplimit.WithRejection(func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
		if rejection.Decision.Reason == fluxgate.ReasonLimited {
			rejection.Problem.Detail += " See https://example.com/plans for more."
		}
		rejection.Write(w, r)
	})))
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		fmt.Println(w.Body)
	}
	// Output:
	// hello
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"per-ip.1-per-1m has 0 of 1 left, and the request costs 1. Try again in 60s. See https://example.com/plans for more.","reason":"limited","violated-policies":["per-ip.1-per-1m"]}
}
