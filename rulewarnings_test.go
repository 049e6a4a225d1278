package fluxgate_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// Rules that are said to apply to no request never do, and limits that are said to reject
// nothing never decide: without them an engine gives the same answers at the same times.
func TestRuleWarnings_Sound_NoRace(t *testing.T) {
	t.Parallel()
	ruleSets := 1_500
	if testing.Short() {
		ruleSets = 300
	}
	const requests = 80
	named, rejected := map[rules.WarningKind]int{}, 0
	for seed := range uint64(ruleSets) {
		g := ruleMaker{rand.New(rand.NewPCG(seed, 11))}
		list := g.commonRules()
		never, without := g.without(t, list, named)
		clock := storetest.NewClock()
		whole := newEngine(t, newStore(t, clock.Now), ruleSet(t, list...))
		rest := newEngine(t, newStore(t, clock.Now), ruleSet(t, without...))
		for range requests {
			clock.Advance(time.Duration(g.IntN(1_500)) * time.Millisecond)
			req := g.commonRequest()
			d, err := whole.Check(t.Context(), &req)
			if err != nil {
				t.Fatal(err)
			}
			for r := range d.Evaluated(&req) {
				if slices.Contains(never, r.Rule.ID) {
					t.Fatalf("seed %d: rule %s applies\n%+v\nrequest %+v", seed, r.Rule.ID, list, req)
				}
			}
			other, err := rest.Check(t.Context(), &req)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed != other.Allowed || d.Reason != other.Reason {
				t.Fatalf("seed %d: %v %s by rule %s, and %v %s without the rules that have warnings\n%+v\n%+v\nrequest %+v",
					seed, d.Allowed, d.Reason, d.RuleID, other.Allowed, other.Reason, list, without, req)
			}
			if d.Reason == fluxgate.ReasonLimited {
				rejected++
			}
		}
	}
	t.Logf("%v, %d rejected", named, rejected)
	for _, kind := range []rules.WarningKind{rules.WarnUnreachable, rules.WarnExempted, rules.WarnReachedFirst} {
		if named[kind] < ruleSets/20 {
			t.Errorf("only %d warnings are %s", named[kind], kind)
		}
	}
	if rejected < 5*ruleSets {
		t.Errorf("only %d requests were rejected", rejected)
	}
}

var quotedID = regexp.MustCompile(`"(r\d+)"`)

// without returns the ids of rules that are said never to apply, and the rules without all that is
// said to have no effect.
func (g ruleMaker) without(t *testing.T, list []rules.Rule, named map[rules.WarningKind]int) (never []string, rest []rules.Rule) {
	bands := map[string]bool{}
	var idle []string
	for _, w := range ruleSet(t, list...).Warnings().List {
		named[w.Kind]++
		switch w.Kind {
		case rules.WarnUnreachable:
			never = append(never, w.RuleID)
		case rules.WarnExempted:
			for _, id := range quotedID.FindAllStringSubmatch(w.Message, -1) {
				never = append(never, id[1])
			}
		case rules.WarnReachedFirst:
			if _, inside := w.Path.Rule(); len(inside) > 1 {
				bands[fmt.Sprint(w.RuleID, inside[1])] = true
			} else {
				idle = append(idle, w.RuleID)
			}
		}
	}
	for _, r := range list {
		if slices.Contains(never, r.ID) || slices.Contains(idle, r.ID) {
			continue
		}
		var kept []rules.Band
		for i, b := range r.Bands {
			if !bands[fmt.Sprint(r.ID, i)] {
				kept = append(kept, b)
			}
		}
		r.Bands = kept
		rest = append(rest, r)
	}
	return never, rest
}

// commonRules are rules that have much in common, with bands of all kinds.
func (g ruleMaker) commonRules() []rules.Rule {
	list := make([]rules.Rule, 2+g.IntN(5))
	for i := range list {
		r := rules.Rule{
			ID: fmt.Sprint("r", i), Priority: g.IntN(5), Group: pick(g, "", "", "", "g", "h"), Disabled: g.chance(5),
			Scope:             pick(g, rules.ScopeGlobal, rules.ScopeUser, rules.ScopeUser, rules.ScopeIP),
			OnMissingIdentity: pick(g, "", "", "", "", rules.MissingAnonymous, rules.MissingRefuse),
			Action:            pick(g, "", "", "", "", "", rules.ActionAllow, rules.ActionDeny),
			Mode:              pick(g, "", "", "", "", rules.ModeShadow),
			Cost:              pick(g, "", "", "", rules.MeasureTokens),
		}
		if r.Limits() {
			for j := range 1 + g.IntN(3) {
				r.Bands = append(r.Bands, g.anyBand(fmt.Sprint("b", j), len(r.Bands) == 0))
			}
		}
		r.Overdraft = r.Limits() && r.Bands[0].Kind != rules.Concurrency && g.chance(8)
		if g.chance(60) {
			r.Paths = []string{pick(g, "/a/**", "/a/b", "/*/b", "/**")}
		}
		if g.chance(20) {
			r.When.ExcludePaths = []string{pick(g, "/a/**", "/x/b")}
		}
		if g.chance(20) {
			r.Methods = []string{pick(g, "GET", "HEAD")}
		}
		if g.chance(20) {
			r.When.Users = pick(g, []string{"ann"}, []string{"ann", "bob"})
		}
		if g.chance(15) {
			r.When.Attributes = map[string][]string{"tenant": {pick(g, "acme", "*")}}
		}
		list[i] = r
	}
	return list
}

func (g ruleMaker) anyBand(label string, first bool) rules.Band {
	kinds := 5
	if !first {
		kinds = 4 // of limits of concurrent requests a rule has one
	}
	capacity, length := 1+g.Int64N(8), time.Duration(1+g.IntN(6))*time.Second
	switch g.IntN(kinds) {
	case 0:
		return rules.Band{Label: label, Kind: rules.Quota, Capacity: 2 * capacity, Period: pick[rules.Period](g, "second", "minute")}
	case 1:
		return rules.Band{Label: label, Kind: rules.SlidingWindow, Capacity: capacity, Refill: length}
	case 4:
		return rules.Band{Label: label, Kind: rules.Concurrency, Capacity: capacity, Hold: length}
	}
	return rules.Band{Label: label, Capacity: capacity, RefillTokens: 1 + g.Int64N(4), Refill: length}
}

func (g ruleMaker) commonRequest() fluxgate.Request {
	req := fluxgate.Request{
		Path: pick(g, "/a/b", "/a/b", "/x/b", "/a/c", "/a/../x/b", "/a%2Fb"), Method: pick(g, "GET", "GET", "HEAD", "POST"),
		UserID: pick(g, "ann", "ann", "bob", ""), Cost: pick[int64](g, 0, 0, 0, 2, 5),
		IP: netip.MustParseAddr(pick(g, "192.0.2.1", "192.0.2.2")),
	}
	if g.chance(50) {
		req.Attributes = map[string]string{"tenant": pick(g, "acme", "other")}
	}
	if g.chance(30) {
		req.Costs = map[string]int64{rules.MeasureTokens: 1 + g.Int64N(6)}
	}
	return req
}
