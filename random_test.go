package fluxgate_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// ruleMaker draws rules and requests from pools so small that they often match.
type ruleMaker struct{ *rand.Rand }

func (g ruleMaker) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g ruleMaker, pool ...T) T { return pool[g.IntN(len(pool))] }

func (g ruleMaker) engine(t *testing.T, buckets store.Store, o fluxgate.Observer, list []rules.Rule) *fluxgate.Engine {
	set, err := ruleSet(t, list...).WithCostTables(g.tables())
	if err != nil {
		t.Fatal(err)
	}
	return newEngine(t, buckets, set, fluxgate.WithObserver(o), fluxgate.WithMissingRule(g.chance(80)),
		fluxgate.WithWaiting(10*time.Minute, 1), fluxgate.WithPolicy(pick(g, rules.Reject, rules.WaitForRefill)))
}

// tables have weights that make costs of the size of the bands.
func (g ruleMaker) tables() rules.CostTables {
	weights := func() rules.Weights {
		return rules.Weights{Input: g.Int64N(900_000), CachedInput: g.Int64N(900_000), Output: g.Int64N(900_000), Reasoning: g.Int64N(900_000), MaxOutputTokens: g.Int64N(5)}
	}
	return rules.CostTables{"usd": {"small": weights(), "*": weights()}}
}

func (g ruleMaker) rules() []rules.Rule {
	list := make([]rules.Rule, 1+g.IntN(8))
	for i := range list {
		list[i] = g.rule(i)
	}
	return list
}

func (g ruleMaker) rule(number int) rules.Rule {
	r := rules.Rule{
		ID: fmt.Sprint("r", number), Priority: g.IntN(4), Group: pick(g, "", "", "", "g", "h"), Disabled: g.chance(8),
		Scope:             pick(g, rules.ScopeGlobal, rules.ScopeIP, rules.ScopeUser, rules.ScopeAPIKey, rules.ScopeComposite, rules.ScopeCustom),
		OnMissingIdentity: pick(g, "", "", rules.MissingIP, rules.MissingAnonymous, rules.MissingRefuse),
		Cost:              pick(g, "", "", "", "", rules.MeasureRequests, rules.MeasureTokens, "usd", "images"),
	}
	if g.chance(15) {
		r.Mode = rules.ModeShadow
	}
	if g.chance(50) {
		r.OnLimitExceed = pick(g, rules.Reject, rules.WaitForRefill)
	}
	switch r.Scope {
	case rules.ScopeCustom:
		r.KeyFields = []string{"attr:tenant"}
	case rules.ScopeComposite:
		fields := []string{"ip", "userId", "apiKey", "method", "path", "header:X-Plan", "attr:tenant", "descriptor", "descriptor:tenant"}
		g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		r.KeyFields = fields[:1+g.IntN(3)]
	}
	r.Action = pick(g, rules.ActionLimit, rules.ActionLimit, rules.ActionLimit, "", "", "", "", rules.ActionAllow, rules.ActionDeny)
	if r.Action == "" || r.Action == rules.ActionLimit {
		r.Bands = bandsOf(number)
	}
	g.narrow(&r)
	return r
}

// bandsOf are the bands of the rule of this number, the same in every rule set:
// then its buckets go on from one to the next.
func bandsOf(number int) []rules.Band {
	periods := []time.Duration{2 * time.Second, time.Minute, time.Hour}
	var bands []rules.Band
	for i := range 1 + number%3 {
		bands = append(bands, rules.Band{Capacity: int64(2 + (5*number+7*i)%12), Refill: periods[(number+i)%3]})
	}
	return bands
}

// narrow gives a rule some conditions.
func (g ruleMaker) narrow(r *rules.Rule) {
	const odds = 9
	if g.chance(2 * odds) {
		r.Paths = []string{pick(g, "/a/**", "/*/b", "/**/c")}
	}
	if g.chance(odds) {
		r.Methods = []string{pick(g, "GET", "post")}
	}
	if g.chance(odds) {
		r.When.ExcludePaths = []string{pick(g, "/a/b", "/**/c")}
	}
	if g.chance(odds) {
		r.When.Hosts = []string{pick(g, "a.test", "*.test")}
	}
	if g.chance(odds) {
		r.When.Headers = map[string][]string{"X-Plan": {pick(g, "gold", "*")}}
	}
	if g.chance(odds) {
		r.When.Attributes = map[string][]string{"tenant": {pick(g, "acme", "*")}}
	}
	if g.chance(odds) {
		r.When.Descriptor = []rules.DescriptorMatch{{Key: "tenant", Value: pick(g, "acme", "a*", "")}}
	}
	if g.chance(odds) {
		r.When.IPs = []netip.Prefix{netip.MustParsePrefix(pick(g, "192.0.2.0/31", "2001:db8::/32"))}
	}
	if g.chance(odds) {
		r.When.Users = []string{pick(g, "ann", "bob")}
	}
	if g.chance(odds) {
		r.When.APIKeys = []string{pick(g, "key-1", "key-2")}
	}
}

func (g ruleMaker) request() fluxgate.Request {
	req := fluxgate.Request{
		Path: pick(g, "/a/b", "/a/x", "/x/b", "/x//c/", "/", "/a/../x/b", "/x%2Fc", "/a/c/../%61"), Method: pick(g, "GET", "POST", "get", ""), Host: pick(g, "a.test", "b.TEST:80", "other"),
		UserID: pick(g, "ann", "bob", ""), APIKey: pick(g, "key-1", "key-2", ""), Cost: pick[int64](g, 0, 0, 0, 1, 2, 5, 12),
	}
	if g.chance(30) {
		req.Costs = map[string]int64{pick(g, "tokens", "usd", "images"): g.Int64N(15)}
	}
	if g.chance(30) {
		req.Estimate = &fluxgate.Estimate{Model: pick(g, "small", "other"), InputTokens: g.Int64N(5), MaxOutputTokens: g.Int64N(5)}
	}
	if g.chance(80) {
		req.IP = netip.MustParseAddr(pick(g, "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.9", "2001:db8::1", "2001:db8::2"))
	}
	if g.chance(60) {
		req.Headers = map[string][]string{pick(g, "X-Plan", "x-plan"): {pick(g, "gold", "lead", "")}}
	}
	if g.chance(60) {
		req.Attributes = map[string]string{"tenant": pick(g, "acme", "other", "")}
	}
	if g.chance(60) {
		req.Descriptor = []fluxgate.DescriptorEntry{{Key: pick(g, "tenant", "tenant", "other"), Value: pick(g, "acme", "other", "")}}
	}
	return req
}
