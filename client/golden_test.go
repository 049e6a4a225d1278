package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/httplimit"
)

// goldens are the middleware's own golden files.
const goldens = "../httplimit/testdata"

// TestTheMiddlewareAnswersAsWithAnEngine puts a client and a server between
// the middleware and its engine and compares whole responses with those of the
// middleware over the engine itself.
func TestTheMiddlewareAnswersAsWithAnEngine(t *testing.T) {
	labelled := []fluxgate.Rule{{
		ID: "rule-1", Bands: []fluxgate.Band{
			{Label: "per-second", Capacity: 100, Refill: time.Second},
			{Label: "per-minute", Capacity: 1000, Refill: time.Minute},
		},
	}}
	small := []fluxgate.Rule{{ID: "per-ip", Scope: fluxgate.ScopeIP, Bands: []fluxgate.Band{fluxgate.PerMinute(3)}}}
	elsewhere := []fluxgate.Rule{with(perHour("elsewhere", 5), func(r *fluxgate.Rule) { r.Paths = []string{"/elsewhere"} })}
	onFailure := func(mode fluxgate.OnFailure) []fluxgate.Rule {
		return []fluxgate.Rule{with(perHour("orders", 20), func(r *fluxgate.Rule) { r.OnFailure = mode })}
	}
	scenarios := []struct {
		name    string
		rules   []fluxgate.Rule
		away    bool // the store
		engine  []fluxgate.Option
		options []httplimit.Option
		before  int // requests whose responses nobody looks at
		method  string
	}{
		{name: "allowed", rules: labelled, before: 49},
		{name: "rejected", rules: small, before: 3},
		{name: "rejected-head", rules: small, before: 3, method: http.MethodHead},
		{
			name: "rejected-by-two", before: 2,
			rules: []fluxgate.Rule{{ID: "login", Bands: []fluxgate.Band{fluxgate.PerSecond(2), {Label: "day", Capacity: 2, Refill: 24 * time.Hour}}}, perHour("all", 100)},
		},
		{name: "rejected-without-ietf-headers", rules: small, before: 3, options: []httplimit.Option{httplimit.WithIETFHeaders(false)}},
		{name: "rejected-without-x-headers", rules: small, before: 3, options: []httplimit.Option{httplimit.WithXHeaders(false)}},
		{
			name: "shadow", before: 5,
			rules: []fluxgate.Rule{with(perHour("planned", 1), func(r *fluxgate.Rule) { r.Mode = fluxgate.ModeShadow }), perHour("today", 10)},
		},
		{
			name: "wait", before: 1, engine: []fluxgate.Option{fluxgate.WithWaiting(time.Second, 10)},
			rules: []fluxgate.Rule{{ID: "queue", OnLimitExceed: fluxgate.WaitForRefill, Bands: []fluxgate.Band{{Capacity: 1, Refill: 30 * time.Millisecond}}}},
		},
		{name: "cost-too-high", rules: small, options: []httplimit.Option{httplimit.WithCost(4)}},
		{name: "denied", rules: []fluxgate.Rule{{ID: "blocked", Action: fluxgate.ActionDeny}}},
		{
			name:  "missing-identity",
			rules: []fluxgate.Rule{with(perHour("per-key", 5), func(r *fluxgate.Rule) { r.Scope, r.OnMissingIdentity = fluxgate.ScopeAPIKey, fluxgate.MissingRefuse })},
		},
		{name: "exempt", rules: []fluxgate.Rule{{ID: "friends", Action: fluxgate.ActionAllow, Priority: 1}, perHour("others", 5)}},
		{name: "no-rule", rules: elsewhere},
		{name: "no-rule-refused", engine: []fluxgate.Option{fluxgate.WithMissingRule(false)}, rules: elsewhere},
		{
			name: "no-rule-set-refused", engine: []fluxgate.Option{fluxgate.WithMissingRule(false)},
			rules: small, options: []httplimit.Option{httplimit.WithRuleSet("unknown")},
		},
		{
			name: "hook-panic", rules: small,
			options: []httplimit.Option{
				httplimit.WithUserFunc(func(*http.Request) string { panic("the secret of the session store") }),
				httplimit.WithObserver(silent{}),
			},
		},
		{name: "store-failure-local", rules: onFailure(fluxgate.FailLocal), away: true, engine: []fluxgate.Option{fluxgate.WithFallback(newStore(t), 0.1)}},
		{name: "store-failure-local-rejected", rules: onFailure(fluxgate.FailLocal), away: true, engine: []fluxgate.Option{fluxgate.WithFallback(newStore(t), 0.1)}, before: 2},
		{name: "store-failure-open", rules: onFailure(fluxgate.FailOpen), away: true},
		{name: "store-failure-closed", rules: onFailure(fluxgate.FailClosed), away: true},
	}
	var tried []string
	for _, c := range scenarios {
		tried = append(tried, c.name)
		t.Run(c.name, func(t *testing.T) {
			var store fluxgate.Store = newStore(t)
			if c.away {
				store = away{store}
			}
			server := serve(t, handler(t, engineOver(t, store, c.rules, c.engine...)))
			limiter := newClient(t, server.URL, client.Config{MaxWait: time.Second})
			got := limited(t, limiter, c.before, c.method, c.options...)
			if want := golden(t, c.name); got != want {
				t.Errorf("got\n%s\nwant, as in %s,\n%s", got, c.name, want)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(goldens, "*.http"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no golden files", err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".http"); !slices.Contains(tried, name) {
			t.Errorf("the middleware's golden file %s was not tried", name)
		}
	}
}

// TestTheMiddlewareAnswersAsIfTheStoreWereAway has no server at all: what a
// client does then is what an engine does without its store.
func TestTheMiddlewareAnswersAsIfTheStoreWereAway(t *testing.T) {
	share := func() *fluxgate.Engine { return engineOver(t, newStore(t), []fluxgate.Rule{perHour("orders", 2)}) }
	for _, c := range []struct {
		golden   string
		mode     fluxgate.OnFailure
		fallback *fluxgate.Engine
		before   int
	}{
		{"store-failure-open", fluxgate.FailOpen, nil, 0},
		{"store-failure-closed", fluxgate.FailClosed, nil, 0},
		{"store-failure-local", fluxgate.FailLocal, share(), 0},
		{"store-failure-local-rejected", fluxgate.FailLocal, share(), 2},
	} {
		t.Run(c.golden, func(t *testing.T) {
			var heard failures
			limiter := newClient(t, nobody(t), client.Config{OnFailure: c.mode, Fallback: c.fallback, Failed: heard.hear})
			got := limited(t, limiter, c.before, "")
			if want := golden(t, c.golden); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if n := heard.count.Load(); n != int64(c.before+1) {
				t.Errorf("%d failures were told of, want %d", n, c.before+1)
			}
		})
	}
}

// limited is the last of equal requests and its response, through a middleware.
func limited(t *testing.T, limiter httplimit.Limiter, before int, method string, options ...httplimit.Option) string {
	t.Helper()
	limit, err := httplimit.New(limiter, options...)
	if err != nil {
		t.Fatal(err)
	}
	front := serve(t, limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })))
	if method == "" {
		method = http.MethodGet
	}
	var got string
	for range before + 1 {
		got = exchange(t, front.Client(), method, front.URL+"/orders/7?page=2")
	}
	return got
}

// exchange is a request and its response as they were sent, but for the date.
func exchange(t *testing.T, browser *http.Client, method, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	response.Header.Del("Date")
	dump, err := httputil.DumpResponse(response, true)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s\n\n%s\n", method, request.URL.RequestURI(), strings.ReplaceAll(strings.TrimSpace(string(dump)), "\r\n", "\n"))
}

func golden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(goldens, name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type silent struct{}

func (silent) Decided(*http.Request, *fluxgate.Decision) {}
func (silent) Skipped(*http.Request)                     {}
func (silent) Failed(*http.Request, error)               {}
