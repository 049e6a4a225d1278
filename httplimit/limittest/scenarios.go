package limittest

import (
	"net/http"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
)

// scenario is the setup for one response.
type scenario struct {
	name    string
	rules   []rules.Rule
	away    bool // the store
	engine  []fluxgate.Option
	options []httplimit.Option
	before  int // requests whose responses are not checked
	method  string
}

func scenarios(t testing.TB) []scenario {
	labelled := []rules.Rule{{
		ID: "rule-1", Bands: []rules.Band{
			{Label: "per-second", Capacity: 100, Refill: time.Second},
			{Label: "per-minute", Capacity: 1000, Refill: time.Minute},
		},
	}}
	small := []rules.Rule{{ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(3)}}}
	onFailure := func(mode rules.OnFailure) []rules.Rule {
		return []rules.Rule{with(perHour("orders", 20), func(r *rules.Rule) { r.OnFailure = mode })}
	}
	return []scenario{
		{name: "allowed", rules: labelled, before: 49},
		{name: "rejected", rules: small, before: 3},
		{name: "rejected-head", rules: small, before: 3, method: http.MethodHead},
		{
			name: "rejected-by-two", before: 2,
			rules: []rules.Rule{
				{ID: "login", Bands: []rules.Band{rules.PerSecond(2), {Label: "day", Capacity: 2, Refill: 24 * time.Hour}}},
				perHour("all", 100),
			},
		},
		{name: "rejected-without-ietf-headers", rules: small, before: 3, options: []httplimit.Option{httplimit.WithIETFHeaders(false)}},
		{name: "rejected-without-x-headers", rules: small, before: 3, options: []httplimit.Option{httplimit.WithXHeaders(false)}},
		{
			name: "shadow", before: 5,
			rules: []rules.Rule{with(perHour("planned", 1), func(r *rules.Rule) { r.Mode = rules.ModeShadow }), perHour("today", 10)},
		},
		{
			name: "wait", before: 1, engine: []fluxgate.Option{fluxgate.WithWaiting(time.Second, 10)},
			rules: []rules.Rule{{ID: "queue", OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{{Capacity: 1, Refill: 30 * time.Millisecond}}}},
		},
		{name: "cost-too-high", rules: small, options: []httplimit.Option{httplimit.WithCost(4)}},
		{name: "denied", rules: []rules.Rule{{ID: "blocked", Action: rules.ActionDeny}}},
		{
			name:  "missing-identity",
			rules: []rules.Rule{with(perHour("per-key", 5), func(r *rules.Rule) { r.Scope, r.OnMissingIdentity = rules.ScopeAPIKey, rules.MissingRefuse })},
		},
		{name: "exempt", rules: []rules.Rule{{ID: "friends", Action: rules.ActionAllow, Priority: 1}, perHour("others", 5)}},
		{name: "no-rule", rules: []rules.Rule{with(perHour("elsewhere", 5), func(r *rules.Rule) { r.Paths = []string{"/elsewhere"} })}},
		{
			name: "no-rule-refused", engine: []fluxgate.Option{fluxgate.WithMissingRule(false)},
			rules: []rules.Rule{with(perHour("elsewhere", 5), func(r *rules.Rule) { r.Paths = []string{"/elsewhere"} })},
		},
		{
			name: "no-rule-set-refused", engine: []fluxgate.Option{fluxgate.WithMissingRule(false)},
			rules: small, options: []httplimit.Option{httplimit.WithRuleSetFunc(func(*http.Request) string { return "unknown" })},
		},
		{
			name: "hook-panic", rules: small,
			options: []httplimit.Option{
				httplimit.WithObserver(silent{}),
				httplimit.WithUserFunc(func(*http.Request) string { panic("the secret of the session store") }),
			},
		},
		{name: "store-failure-local", rules: onFailure(rules.FailLocal), away: true, engine: []fluxgate.Option{fluxgate.WithFallback(newStore(t)), fluxgate.WithFallbackShare(0.1)}},
		{name: "store-failure-local-rejected", rules: onFailure(rules.FailLocal), away: true, engine: []fluxgate.Option{fluxgate.WithFallback(newStore(t)), fluxgate.WithFallbackShare(0.1)}, before: 2},
		{name: "store-failure-open", rules: onFailure(rules.FailOpen), away: true},
		{name: "store-failure-closed", rules: onFailure(rules.FailClosed), away: true},
	}
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

// silent is an observer that does not write to the server's log.
type silent struct{}

func (silent) Decided(*http.Request, *fluxgate.Decision) {}
func (silent) Skipped(*http.Request)                     {}
func (silent) Failed(*http.Request, error)               {}
