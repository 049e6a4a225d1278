package httplimit_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
)

// TestGoldenResponses compares whole responses of a real server with those in
// testdata. UPDATE_GOLDEN=1 writes them anew.
func TestGoldenResponses(t *testing.T) {
	labelled := []fluxgate.Rule{{
		ID: "rule-1", Bands: []fluxgate.Band{
			{Label: "per-second", Capacity: 100, Refill: time.Second},
			{Label: "per-minute", Capacity: 1000, Refill: time.Minute},
		},
	}}
	small := []fluxgate.Rule{{ID: "per-ip", Scope: fluxgate.ScopeIP, Bands: []fluxgate.Band{fluxgate.PerMinute(3)}}}
	onFailure := func(mode fluxgate.OnFailure) []fluxgate.Rule {
		return []fluxgate.Rule{with(perHour("orders", 20), func(r *fluxgate.Rule) { r.OnFailure = mode })}
	}
	for _, c := range []struct {
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
		{name: "no-rule", rules: []fluxgate.Rule{with(perHour("elsewhere", 5), func(r *fluxgate.Rule) { r.Paths = []string{"/elsewhere"} })}},
		{
			name: "no-rule-refused", engine: []fluxgate.Option{fluxgate.WithMissingRule(false)},
			rules: []fluxgate.Rule{with(perHour("elsewhere", 5), func(r *fluxgate.Rule) { r.Paths = []string{"/elsewhere"} })},
		},
		{
			name: "no-rule-set-refused", engine: []fluxgate.Option{fluxgate.WithMissingRule(false)},
			rules: small, options: []httplimit.Option{httplimit.WithRuleSet("unknown")},
		},
		{
			name: "hook-panic", rules: small,
			options: []httplimit.Option{
				httplimit.WithObserver(new(recorder)),
				httplimit.WithUserFunc(func(*http.Request) string { panic("the secret of the session store") }),
			},
		},
		{name: "store-failure-local", rules: onFailure(fluxgate.FailLocal), away: true, engine: []fluxgate.Option{fluxgate.WithFallback(newStore(t), 0.1)}},
		{name: "store-failure-local-rejected", rules: onFailure(fluxgate.FailLocal), away: true, engine: []fluxgate.Option{fluxgate.WithFallback(newStore(t), 0.1)}, before: 2},
		{name: "store-failure-open", rules: onFailure(fluxgate.FailOpen), away: true},
		{name: "store-failure-closed", rules: onFailure(fluxgate.FailClosed), away: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var store fluxgate.Store = newStore(t)
			if c.away {
				store = away{store}
			}
			server := serve(t, newLimit(t, engineOver(t, store, c.rules, c.engine...), c.options...)(hello))
			method := c.method
			if method == "" {
				method = http.MethodGet
			}
			var got string
			for range c.before + 1 {
				got = exchange(t, server.Client(), method, server.URL+"/orders/7?page=2")
			}
			golden(t, c.name, got)
		})
	}
}

// exchange is a request and its response as they were sent, but for the date.
func exchange(t *testing.T, client *http.Client, method, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
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

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".http")
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
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("got\n%s\nwant, as in %s,\n%s", got, file, want)
	}
}
