package fluxgate_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
)

// ruleMaker draws rules and requests from pools so small that they often match.
type ruleMaker struct{ *rand.Rand }

func (g ruleMaker) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g ruleMaker, pool ...T) T { return pool[g.IntN(len(pool))] }

func (g ruleMaker) engine(t *testing.T, store fluxgate.Store, o fluxgate.Observer, rules []fluxgate.Rule) *fluxgate.Engine {
	set, err := ruleSet(t, rules...).WithCostTables(g.tables())
	if err != nil {
		t.Fatal(err)
	}
	return newEngine(t, store, set, fluxgate.WithObserver(o), fluxgate.WithMissingRule(g.chance(80)),
		fluxgate.WithWaiting(10*time.Minute, 1), fluxgate.WithPolicy(pick(g, fluxgate.Reject, fluxgate.WaitForRefill)))
}

// tables have weights that make costs of the size of the bands.
func (g ruleMaker) tables() fluxgate.CostTables {
	weights := func() fluxgate.Weights {
		return fluxgate.Weights{Input: g.Int64N(900_000), CachedInput: g.Int64N(900_000), Output: g.Int64N(900_000), Reasoning: g.Int64N(900_000), MaxOutputTokens: g.Int64N(5)}
	}
	return fluxgate.CostTables{"usd": {"small": weights(), "*": weights()}}
}

func (g ruleMaker) rules() []fluxgate.Rule {
	rules := make([]fluxgate.Rule, 1+g.IntN(8))
	for i := range rules {
		rules[i] = g.rule(i)
	}
	return rules
}

func (g ruleMaker) rule(number int) fluxgate.Rule {
	r := fluxgate.Rule{
		ID: fmt.Sprint("r", number), Priority: g.IntN(4), Group: pick(g, "", "", "", "g", "h"), Disabled: g.chance(8),
		Scope:             pick(g, fluxgate.ScopeGlobal, fluxgate.ScopeIP, fluxgate.ScopeUser, fluxgate.ScopeAPIKey, fluxgate.ScopeComposite, fluxgate.ScopeCustom),
		OnMissingIdentity: pick(g, "", "", fluxgate.MissingIP, fluxgate.MissingAnonymous, fluxgate.MissingRefuse),
		Cost:              pick(g, "", "", "", "", fluxgate.MeasureRequests, fluxgate.MeasureTokens, "usd", "images"),
	}
	if g.chance(15) {
		r.Mode = fluxgate.ModeShadow
	}
	if g.chance(50) {
		r.OnLimitExceed = pick(g, fluxgate.Reject, fluxgate.WaitForRefill)
	}
	switch r.Scope {
	case fluxgate.ScopeCustom:
		r.KeyFields = []string{"attr:tenant"}
	case fluxgate.ScopeComposite:
		fields := []string{"ip", "userId", "apiKey", "method", "path", "header:X-Plan", "attr:tenant", "descriptor", "descriptor:tenant"}
		g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		r.KeyFields = fields[:1+g.IntN(3)]
	}
	r.Action = pick(g, fluxgate.ActionLimit, fluxgate.ActionLimit, fluxgate.ActionLimit, "", "", "", "", fluxgate.ActionAllow, fluxgate.ActionDeny)
	if r.Action == "" || r.Action == fluxgate.ActionLimit {
		r.Bands = bandsOf(number)
	}
	g.narrow(&r)
	return r
}

// bandsOf are the bands of the rule of this number, the same in every rule set:
// then its buckets go on from one to the next.
func bandsOf(number int) []fluxgate.Band {
	periods := []time.Duration{2 * time.Second, time.Minute, time.Hour}
	var bands []fluxgate.Band
	for i := range 1 + number%3 {
		bands = append(bands, fluxgate.Band{Capacity: int64(2 + (5*number+7*i)%12), Refill: periods[(number+i)%3]})
	}
	return bands
}

// narrow gives a rule some conditions.
func (g ruleMaker) narrow(r *fluxgate.Rule) {
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
		r.When.Descriptor = []fluxgate.DescriptorMatch{{Key: "tenant", Value: pick(g, "acme", "a*", "")}}
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
