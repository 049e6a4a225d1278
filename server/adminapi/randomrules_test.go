package adminapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// maker returns random rules and requests from pools so small that they match.
type maker struct{ *rand.Rand }

func (m maker) chance(percent int) bool { return m.IntN(100) < percent }

func pick[T any](m maker, pool ...T) T { return pool[m.IntN(len(pool))] }

func (m maker) set(t testing.TB, id string) *rules.Set {
	t.Helper()
	all := make([]rules.Rule, 1+m.IntN(6))
	for i := range all {
		all[i] = m.rule(fmt.Sprintf("%s-%d", id, i))
	}
	set, err := rules.NewSet(id, all...)
	do(t, err)
	weights := func() rules.Weights {
		return rules.Weights{Input: m.Int64N(900_000), Output: m.Int64N(900_000), MaxOutputTokens: m.Int64N(5)}
	}
	set, err = set.WithCostTables(rules.CostTables{"usd": {"small": weights(), "*": weights()}})
	do(t, err)
	return set
}

func (m maker) rule(id string) rules.Rule {
	r := rules.Rule{
		ID: id, Priority: m.IntN(3), Group: pick(m, "", "", "", "g"), Disabled: m.chance(7),
		Scope:             pick(m, rules.ScopeGlobal, rules.ScopeIP, rules.ScopeUser, rules.ScopeAPIKey, rules.ScopeComposite),
		OnMissingIdentity: pick(m, "", "", rules.MissingAnonymous, rules.MissingRefuse),
		Action:            pick(m, "", "", "", "", "", "", "", "", rules.ActionAllow, rules.ActionDeny),
		Cost:              pick(m, "", "", "", "", rules.MeasureTokens, "usd"),
	}
	if m.chance(15) {
		r.Mode = rules.ModeShadow
	}
	if r.Scope == rules.ScopeComposite {
		r.KeyFields = pick(m, []string{"ip", "userId"}, []string{"attr:tenant", "method"}, []string{"header:X-Plan", "apiKey"}, []string{"descriptor"})
	}
	if r.Action == "" {
		r.Bands = m.bands()
	}
	const odds = 8
	if m.chance(2 * odds) {
		r.Paths = []string{pick(m, "/a/**", "/*/b")}
	}
	if m.chance(odds) {
		r.Methods = []string{"GET"}
	}
	if m.chance(odds) {
		r.When.Headers = map[string][]string{"X-Plan": {pick(m, "gold", "*")}}
	}
	if m.chance(odds) {
		r.When.Descriptor = []rules.DescriptorMatch{{Key: "tenant", Value: pick(m, "acme", "a*", "")}}
	}
	if m.chance(odds) {
		r.When.IPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/31")}
	}
	if m.chance(odds) {
		r.When.Users = []string{pick(m, "ann", "bob")}
	}
	if m.chance(odds) {
		r.When.APIKeys = []string{pick(m, "key-1", "key-2")}
	}
	return r
}

// bands returns bands that refill after days, so that the test sees no refill.
func (m maker) bands() []rules.Band {
	all := []rules.Band{{Label: "a", Capacity: 3 + m.Int64N(12), RefillTokens: 1, Refill: 10 * 24 * time.Hour}}
	if m.chance(30) {
		all = append(all, rules.Band{Label: "b", Capacity: 3 + m.Int64N(20), RefillTokens: 1, Refill: 30 * 24 * time.Hour})
	}
	return all
}

func (m maker) request(ruleSet string) *fluxgate.Request {
	r := &fluxgate.Request{
		RuleSet: ruleSet, Path: pick(m, "/a/b", "/a/x", "/x/b", "/"), Method: pick(m, "GET", "POST"),
		UserID: pick(m, "ann", "bob", ""), APIKey: pick(m, "key-1", "key-2", ""), Cost: pick[int64](m, 0, 0, 1, 2, 5, 12),
	}
	if m.chance(20) {
		r.Costs = map[string]int64{pick(m, "tokens", "usd"): m.Int64N(9)}
	}
	if m.chance(30) {
		r.Estimate = &fluxgate.Estimate{Model: pick(m, "small", "other"), InputTokens: m.Int64N(5), MaxOutputTokens: m.Int64N(5)}
	}
	if m.chance(80) {
		r.IP = netip.MustParseAddr(pick(m, "192.0.2.1", "192.0.2.9", "2001:db8::1"))
	}
	if m.chance(60) {
		r.Headers = map[string][]string{"X-Plan": {pick(m, "gold", "lead")}}
	}
	if m.chance(60) {
		r.Attributes = map[string]string{"tenant": pick(m, "acme", "other")}
	}
	if m.chance(60) {
		r.Descriptor = []fluxgate.DescriptorEntry{{Key: "tenant", Value: pick(m, "acme", "other")}}
	}
	return r
}
