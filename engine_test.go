package fluxgate_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// The band with the smallest share left binds an allowed request.
func TestBinding_Allowed(t *testing.T) {
	onlyGET := func(r *rules.Rule) { r.Methods = []string{"GET"} }
	for _, c := range []struct {
		name        string
		rules       []rules.Rule
		before      int64 // tokens that POSTs have taken
		want        string
		limit, left int64
		full        time.Duration
	}{
		{
			"the smaller of two bands of a rule",
			[]rules.Rule{{ID: "r", Bands: []rules.Band{perHour("big", 100), perHour("small", 10)}}},
			0, "r.small", 10, 9, 6 * time.Minute,
		},
		{
			"the smaller of two rules, though its priority is lower",
			[]rules.Rule{rule("first", 9, 100), rule("second", 1, 10)},
			0, "second.hour", 10, 9, 6 * time.Minute,
		},
		{
			"one with more tokens left that are a smaller share",
			[]rules.Rule{rule("large", 1, 1_000), with(rule("small", 9, 10), onlyGET)},
			900, "large.hour", 1_000, 99, 3_243_600 * time.Millisecond,
		},
		{
			"the rule with the higher priority where shares are equal",
			[]rules.Rule{rule("low", 1, 10), rule("high", 9, 10)},
			0, "high.hour", 10, 9, 6 * time.Minute,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, c.rules)
			if c.before > 0 {
				g.check(fluxgate.Request{Method: "POST", Cost: c.before})
			}
			d := g.check(fluxgate.Request{Method: "GET"})
			if got := d.RuleID + "." + d.Band; !d.Allowed || d.Reason != fluxgate.ReasonOK || got != c.want {
				t.Errorf("%s binds (allowed %t, %s), want %s", got, d.Allowed, d.Reason, c.want)
			}
			if d.Limit != c.limit || d.Remaining != c.left || d.ResetAfter != c.full {
				t.Errorf("limit %d, %d left, full after %v; want %d, %d, %v", d.Limit, d.Remaining, d.ResetAfter, c.limit, c.left, c.full)
			}
			if !d.Time.Equal(g.clock.Now()) || d.Source != store.FromStore || d.Degraded || d.RetryAfter != 0 {
				t.Errorf("decided at %v from %v, degraded %t, retry after %v", d.Time, d.Source, d.Degraded, d.RetryAfter)
			}
		})
	}
}

// The band with the longest wait binds a rejected request.
func TestBinding_Rejected(t *testing.T) {
	perMinute := rules.Band{Label: "minute", Capacity: 1, Refill: time.Minute}
	hour, day := perHour("hour", 1), rules.Band{Label: "day", Capacity: 1, Refill: 24 * time.Hour}
	for _, c := range []struct {
		name  string
		rules []rules.Rule
		want  string
		wait  time.Duration
	}{
		{
			"of the bands of one rule", []rules.Rule{{ID: "r", Bands: []rules.Band{perMinute, day, hour}}},
			"r.day", 24 * time.Hour,
		},
		{
			"of the bands of all rules, whatever their priority",
			[]rules.Rule{{ID: "a", Priority: 9, Bands: []rules.Band{perMinute}}, {ID: "b", Bands: []rules.Band{hour}}},
			"b.hour", time.Hour,
		},
		{
			"of the rules that reject, not of those with the smallest share left",
			[]rules.Rule{{ID: "a", Bands: []rules.Band{perMinute}}, rule("b", 9, 2)},
			"a.minute", time.Minute,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, c.rules)
			g.check(fluxgate.Request{})
			d := g.check(fluxgate.Request{})
			if got := d.RuleID + "." + d.Band; d.Allowed || d.Reason != fluxgate.ReasonLimited || got != c.want {
				t.Errorf("%s binds (allowed %t, %s), want %s", got, d.Allowed, d.Reason, c.want)
			}
			if d.RetryAfter != c.wait || d.ResetAfter != c.wait || d.Limit != 1 || d.Remaining != 0 {
				t.Errorf("retry after %v, full after %v, %d of %d left; want %v and 0 of 1", d.RetryAfter, d.ResetAfter, d.Remaining, d.Limit, c.wait)
			}
			g.clock.Advance(c.wait - time.Microsecond)
			if g.check(fluxgate.Request{}).Allowed {
				t.Error("passes before RetryAfter is over")
			}
			g.clock.Advance(time.Microsecond)
			if !g.check(fluxgate.Request{}).Allowed {
				t.Error("is rejected when RetryAfter is over")
			}
		})
	}
}

// Bands are listed in the order of their rules.
func TestBands_Order(t *testing.T) {
	g := newGate(t, []rules.Rule{
		{ID: "late", Priority: 1, Bands: []rules.Band{rules.PerMinute(5)}},
		{ID: "early", Priority: 9, Bands: []rules.Band{perHour("a", 10), perHour("b", 20)}},
		with(rule("measured", 5, 2), func(r *rules.Rule) { r.Mode = rules.ModeShadow }),
		with(rule("off", 99, 2), func(r *rules.Rule) { r.Disabled = true }),
	})
	d := g.check(fluxgate.Request{Cost: 3})
	want := []string{
		"early.a ok 7 of 10", "early.b ok 17 of 20",
		"measured.hour too costly 2 of 2 shadow", "late.5-per-1m ok 2 of 5",
	}
	if got := bands(&d); !slices.Equal(got, want) {
		t.Errorf("bands\n%q\nwant\n%q", got, want)
	}
	d = g.check(fluxgate.Request{Cost: 3})
	want = []string{
		"early.a ok 7 of 10", "early.b ok 17 of 20",
		"measured.hour too costly 2 of 2 shadow", "late.5-per-1m rejected 2 of 5",
	}
	if got := bands(&d); d.Allowed || !slices.Equal(got, want) {
		t.Errorf("rejected: %t, bands\n%q\nwant\n%q", !d.Allowed, got, want)
	}
	for range d.Bands() {
		break // a loop that stops early is not continued
	}
}

// Of the matching rules in a group only the one with the highest priority
// applies.
func TestCheck_Groups(t *testing.T) {
	plan := func(id string, priority int, n int64, when rules.When) rules.Rule {
		return rules.Rule{
			ID: id, Priority: priority, Group: "plan", Scope: rules.ScopeUser, When: when,
			Bands: []rules.Band{rules.PerMinute(n)},
		}
	}
	g := newGate(t, []rules.Rule{
		plan("everyone", 0, 100, rules.When{}),
		plan("premium", 10, 1_000, rules.When{Attributes: map[string][]string{"tier": {"premium"}}}),
		plan("acme", 20, 5_000, rules.When{Users: []string{"acme"}}),
	})
	premium := map[string]string{"tier": "premium"}
	for _, c := range []struct {
		name string
		req  fluxgate.Request
		rule string
		want int
	}{
		{"100 a minute for everyone", fluxgate.Request{UserID: "ann"}, "everyone", 100},
		{"1,000 for premium", fluxgate.Request{UserID: "bob", Attributes: premium}, "premium", 1_000},
		{"5,000 for acme", fluxgate.Request{UserID: "acme", Attributes: premium}, "acme", 5_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := g.admitted(c.want+10, c.req); got != c.want {
				t.Errorf("%d requests pass, want %d", got, c.want)
			}
			if d := g.check(c.req); d.RuleID != c.rule {
				t.Errorf("%s binds, want %s", d.RuleID, c.rule)
			}
		})
	}
}

// A rule that allows exempts a request from the rules after it.
func TestCheck_Allow(t *testing.T) {
	inside := fluxgate.Request{UserID: "monitor"}
	newRules := func(allow rules.Rule) []rules.Rule {
		allow.ID, allow.Priority, allow.Action = "exempt", 50, rules.ActionAllow
		allow.When.Users = []string{"monitor"}
		return []rules.Rule{rule("before", 90, 3), allow, rule("after", 10, 1)}
	}
	t.Run("and not from those before it", func(t *testing.T) {
		g := newGate(t, newRules(rules.Rule{}))
		if got := g.admitted(5, inside); got != 3 {
			t.Errorf("%d of 5 pass, want the 3 of the rule before", got)
		}
		if d := g.check(inside); answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "before"}) {
			t.Errorf("decided %+v", answerOf(&d))
		}
		if got := g.left(fluxgate.Request{})["after.hour"]; got != 1 {
			t.Errorf("the rule after it has %d left, want 1", got)
		}
	})
	t.Run("and says so where no rule stands before it", func(t *testing.T) {
		g := newGate(t, newRules(rules.Rule{})[1:])
		for range 5 {
			d := g.check(inside)
			if answerOf(&d) != (answer{true, fluxgate.ReasonExempt, "exempt"}) || d.Receipt() != nil {
				t.Fatalf("decided %+v with receipt %v", answerOf(&d), d.Receipt())
			}
		}
		if got := g.left(fluxgate.Request{})["after.hour"]; got != 1 {
			t.Errorf("the rule after it has %d left, want 1", got)
		}
	})
	t.Run("also where requests without a rule are refused", func(t *testing.T) {
		g := newGate(t, newRules(rules.Rule{})[1:], fluxgate.WithMissingRule(false))
		if d := g.check(inside); answerOf(&d) != (answer{true, fluxgate.ReasonExempt, "exempt"}) {
			t.Errorf("decided %+v", answerOf(&d))
		}
	})
	t.Run("unless it is in shadow", func(t *testing.T) {
		g := newGate(t, newRules(rules.Rule{Mode: rules.ModeShadow}))
		if got := g.admitted(5, inside); got != 1 {
			t.Errorf("%d of 5 pass, want the 1 of the rule after", got)
		}
		g = newGate(t, newRules(rules.Rule{Mode: rules.ModeShadow})[1:2], fluxgate.WithMissingRule(false))
		if d := g.check(inside); answerOf(&d) != (answer{false, fluxgate.ReasonNoRule, ""}) {
			t.Errorf("alone it decides %+v", answerOf(&d))
		}
	})
}

// A rule that denies refuses a request, and no tokens are taken.
func TestCheck_Deny(t *testing.T) {
	blocked := fluxgate.Request{UserID: "mallory"}
	deny := rules.Rule{ID: "block", Priority: 50, Action: rules.ActionDeny, When: rules.When{Users: []string{"mallory"}}}
	t.Run("from rules before and after it", func(t *testing.T) {
		g := newGate(t, []rules.Rule{rule("before", 90, 3), deny, rule("after", 10, 3)})
		for range 10 {
			d := g.check(blocked)
			if answerOf(&d) != (answer{false, fluxgate.ReasonDenied, "block"}) || d.RetryAfter != 0 {
				t.Fatalf("decided %+v, retry after %v", answerOf(&d), d.RetryAfter)
			}
		}
		want := map[string]int64{"before.hour": 3, "after.hour": 3}
		if got := g.left(fluxgate.Request{}); !maps.Equal(got, want) {
			t.Errorf("left %v, want %v", got, want)
		}
	})
	t.Run("unless it is in shadow", func(t *testing.T) {
		g := newGate(t, []rules.Rule{with(deny, func(r *rules.Rule) { r.Mode = rules.ModeShadow }), rule("after", 10, 3)})
		if got := g.admitted(5, blocked); got != 3 {
			t.Errorf("%d of 5 pass, want the 3 of the rule after", got)
		}
		g = newGate(t, []rules.Rule{with(deny, func(r *rules.Rule) { r.Mode = rules.ModeShadow })})
		if d := g.check(blocked); answerOf(&d) != (answer{true, fluxgate.ReasonNoRule, ""}) {
			t.Errorf("alone it decides %+v", answerOf(&d))
		}
	})
	t.Run("unless a rule before it allows", func(t *testing.T) {
		allow := rules.Rule{ID: "allow", Priority: 60, Action: rules.ActionAllow}
		g := newGate(t, []rules.Rule{allow, deny})
		if d := g.check(blocked); answerOf(&d) != (answer{true, fluxgate.ReasonExempt, "allow"}) {
			t.Errorf("decided %+v", answerOf(&d))
		}
	})
}

func TestCheck_ShadowRules(t *testing.T) {
	shadow := func(id string, priority int, n int64) rules.Rule {
		return with(rule(id, priority, n), func(r *rules.Rule) { r.Mode = rules.ModeShadow })
	}
	t.Run("take where they fit and never reject", func(t *testing.T) {
		g := newGate(t, []rules.Rule{shadow("measured", 9, 2), rule("enforced", 1, 4)})
		for i, want := range []string{
			"measured.hour ok 1 of 2 shadow", "measured.hour ok 0 of 2 shadow",
			"measured.hour rejected 0 of 2 shadow", "measured.hour rejected 0 of 2 shadow",
		} {
			d := g.check(fluxgate.Request{})
			if got := bands(&d)[0]; answerOf(&d) != (answer{true, fluxgate.ReasonOK, "enforced"}) || got != want {
				t.Errorf("request %d: %+v, %s; want %s", i, answerOf(&d), got, want)
			}
		}
		if d := g.check(fluxgate.Request{}); answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "enforced"}) {
			t.Errorf("the enforced rule of 4 decides %+v on the fifth", answerOf(&d))
		}
	})
	t.Run("take nothing from a request that is rejected", func(t *testing.T) {
		g := newGate(t, []rules.Rule{shadow("measured", 9, 10), rule("enforced", 1, 1)})
		g.admitted(5, fluxgate.Request{})
		if got := g.left(fluxgate.Request{})["measured.hour"]; got != 9 {
			t.Errorf("%d left of 10 after one of 5 passed, want 9", got)
		}
	})
	t.Run("do not displace an enforced rule of their group", func(t *testing.T) {
		inGroup := func(r *rules.Rule) { r.Group = "plan" }
		g := newGate(t, []rules.Rule{with(shadow("measured", 9, 100), inGroup), with(rule("enforced", 1, 2), inGroup)})
		if got := g.admitted(5, fluxgate.Request{}); got != 2 {
			t.Errorf("%d of 5 pass, want the 2 of the enforced rule", got)
		}
		if got := g.left(fluxgate.Request{})["measured.hour"]; got != 98 {
			t.Errorf("the shadow rule has %d left, want 98", got)
		}
	})
	t.Run("that miss an identity they would refuse are left out", func(t *testing.T) {
		g := newGate(t, []rules.Rule{with(shadow("measured", 9, 5), func(r *rules.Rule) {
			r.Scope, r.OnMissingIdentity = rules.ScopeUser, rules.MissingRefuse
		}), rule("enforced", 1, 5)})
		d := g.check(fluxgate.Request{})
		if got := bands(&d); !d.Allowed || !slices.Equal(got, []string{"enforced.hour ok 4 of 5"}) {
			t.Errorf("allowed %t, bands %q", d.Allowed, got)
		}
	})
	t.Run("alone are measured and the request passes as if there were none", func(t *testing.T) {
		g := newGate(t, []rules.Rule{shadow("measured", 9, 1)})
		for _, want := range []string{"measured.hour ok 0 of 1 shadow", "measured.hour rejected 0 of 1 shadow"} {
			d := g.check(fluxgate.Request{})
			if got := bands(&d); answerOf(&d) != (answer{true, fluxgate.ReasonNoRule, ""}) || !slices.Equal(got, []string{want}) {
				t.Errorf("decided %+v, bands %q, want %s", answerOf(&d), got, want)
			}
		}
	})
	t.Run("alone do not admit where requests without a rule are refused", func(t *testing.T) {
		g := newGate(t, []rules.Rule{shadow("measured", 9, 5)}, fluxgate.WithMissingRule(false))
		d := g.check(fluxgate.Request{})
		if answerOf(&d) != (answer{false, fluxgate.ReasonNoRule, ""}) || d.Receipt() != nil || len(bands(&d)) != 0 {
			t.Errorf("decided %+v, bands %q", answerOf(&d), bands(&d))
		}
	})
	t.Run("before one that exempts are measured", func(t *testing.T) {
		allow := rules.Rule{ID: "exempt", Action: rules.ActionAllow}
		g := newGate(t, []rules.Rule{shadow("measured", 9, 5), allow})
		d := g.check(fluxgate.Request{})
		if got := bands(&d); answerOf(&d) != (answer{true, fluxgate.ReasonExempt, "exempt"}) || !slices.Equal(got, []string{"measured.hour ok 4 of 5 shadow"}) {
			t.Errorf("decided %+v, bands %q", answerOf(&d), got)
		}
	})
}

func TestCheck_NoRule(t *testing.T) {
	onlyUsers := with(rule("users", 0, 5), func(r *rules.Rule) { r.Paths = []string{"/users/**"} })
	for _, c := range []struct {
		name    string
		options []fluxgate.Option
		req     fluxgate.Request
		allowed bool
		reason  fluxgate.Reason
	}{
		{"pass by default", nil, fluxgate.Request{Path: "/orders"}, true, fluxgate.ReasonNoRule},
		{"pass where that is said", []fluxgate.Option{fluxgate.WithMissingRule(true)}, fluxgate.Request{Path: "/orders"}, true, fluxgate.ReasonNoRule},
		{"are refused where that is said", []fluxgate.Option{fluxgate.WithMissingRule(false)}, fluxgate.Request{Path: "/orders"}, false, fluxgate.ReasonNoRule},
		{"because nobody knows the rule set pass by default", nil, fluxgate.Request{RuleSet: "other", Path: "/users/1"}, true, fluxgate.ReasonNoRuleSet},
		{"because nobody knows the rule set are refused where that is said", []fluxgate.Option{fluxgate.WithMissingRule(false)}, fluxgate.Request{RuleSet: "other", Path: "/users/1"}, false, fluxgate.ReasonNoRuleSet},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, []rules.Rule{onlyUsers}, c.options...)
			d := g.check(c.req)
			if want := (answer{c.allowed, c.reason, ""}); answerOf(&d) != want {
				t.Errorf("decided %+v, want %+v", answerOf(&d), want)
			}
			if d.Receipt() != nil || len(bands(&d)) != 0 || !d.Time.IsZero() {
				t.Errorf("receipt %v, bands %q, time %v of a decision without a rule", d.Receipt(), bands(&d), d.Time)
			}
		})
	}
}

// WithKnownRuleSets refuses a name that is a mistake, but not a call of Envoy.
func TestCheck_KnownRuleSets(t *testing.T) {
	g := newGate(t, []rules.Rule{rule("only", 0, 5)}, fluxgate.WithKnownRuleSets())
	req := fluxgate.Request{RuleSet: "other"}
	if d, err := g.Check(t.Context(), &req); !errors.Is(err, fluxgate.ErrNoRuleSet) || d.Allowed {
		t.Errorf("an unknown name: allowed %t, error %v", d.Allowed, err)
	}
	if x, err := g.Explain(t.Context(), &req); !errors.Is(err, fluxgate.ErrNoRuleSet) || x.Decision.Allowed {
		t.Errorf("its explanation: allowed %t, error %v", x.Decision.Allowed, err)
	}
	if d, _, err := g.CheckAll(t.Context(), []fluxgate.Request{req}); err != nil || !d.Allowed || d.Reason != fluxgate.ReasonNoRuleSet {
		t.Errorf("a call of Envoy: %+v, error %v", d, err)
	}
	if d, err := g.Check(t.Context(), &fluxgate.Request{}); err != nil || d.Reason != fluxgate.ReasonOK {
		t.Errorf("no name: %+v, error %v", d, err)
	}
}

// A request without a rule set is decided by the only one.
func TestCheck_DefaultRuleSet(t *testing.T) {
	g := newGate(t, []rules.Rule{rule("only", 0, 5)}, fluxgate.WithRuleSet(""))
	if d := g.check(fluxgate.Request{}); answerOf(&d) != (answer{true, fluxgate.ReasonOK, "only"}) {
		t.Errorf("decided %+v", answerOf(&d))
	}
}

// New fails if the rule set of WithRuleSet does not exist.
func TestNew_MissingRuleSet(t *testing.T) {
	set, err := rules.NewSet("api", rule("r", 0, 5))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fluxgate.New(newStore(t, nil), fluxgate.Static(set), fluxgate.WithRuleSet("apj")); err == nil || !strings.Contains(err.Error(), "apj") {
		t.Errorf("error %v for a rule set that is not there", err)
	}
}

func TestCheck_NamedRuleSet(t *testing.T) {
	one, err := rules.NewSet("one", rule("first", 0, 5))
	if err != nil {
		t.Fatal(err)
	}
	other, err := rules.NewSet("other", rule("second", 0, 5))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := fluxgate.New(newStore(t, nil), fluxgate.Static(one, other), fluxgate.WithRuleSet("one"))
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{"": "first", "one": "first", "other": "second"} {
		if d := check(t, engine, fluxgate.Request{RuleSet: set}); d.RuleID != want {
			t.Errorf("rule set %q: rule %s binds, want %s", set, d.RuleID, want)
		}
	}
}

func TestCheck_Cost(t *testing.T) {
	two := []rules.Rule{rule("small", 1, 10), rule("large", 9, 100)}
	t.Run("is one where none is given", func(t *testing.T) {
		g := newGate(t, two)
		if got := g.admitted(20, fluxgate.Request{}); got != 10 {
			t.Errorf("%d pass, want 10", got)
		}
	})
	t.Run("is taken from every rule", func(t *testing.T) {
		g := newGate(t, two)
		g.check(fluxgate.Request{Cost: 7})
		want := map[string]int64{"small.hour": 3, "large.hour": 93}
		if got := g.left(fluxgate.Request{}); !maps.Equal(got, want) {
			t.Errorf("left %v, want %v", got, want)
		}
	})
	t.Run("that is negative is refused", func(t *testing.T) {
		g := newGate(t, two)
		for _, cost := range []int64{-1, math.MinInt64} {
			for _, peek := range []bool{false, true} {
				if _, err := g.Check(t.Context(), &fluxgate.Request{Cost: cost, Peek: peek}); !errors.Is(err, fluxgate.ErrCost) {
					t.Errorf("cost %d, peek %t: error %v, want ErrCost", cost, peek, err)
				}
			}
		}
	})
	t.Run("above a capacity can never pass, takes nothing and has no RetryAfter", func(t *testing.T) {
		for _, cost := range []int64{11, 101, store.MaxCost} {
			g := newGate(t, two)
			g.check(fluxgate.Request{Cost: 10}) // nothing is left in the small one
			d := g.check(fluxgate.Request{Cost: cost})
			if d.Allowed || d.Reason != fluxgate.ReasonCostTooHigh || d.RetryAfter != 0 || cost <= d.Limit {
				t.Errorf("cost %d: %+v, retry after %v, limit %d", cost, answerOf(&d), d.RetryAfter, d.Limit)
			}
			want := map[string]int64{"small.hour": 0, "large.hour": 90}
			if got := g.left(fluxgate.Request{}); !maps.Equal(got, want) {
				t.Errorf("left %v, want %v", got, want)
			}
		}
	})
	t.Run("that can never pass binds before an empty band", func(t *testing.T) {
		g := newGate(t, []rules.Rule{rule("empty", 9, 20), with(rule("tiny", 1, 5), func(r *rules.Rule) { r.Methods = []string{"PUT"} })})
		g.check(fluxgate.Request{Cost: 20})
		d := g.check(fluxgate.Request{Cost: 6, Method: "PUT"})
		if answerOf(&d) != (answer{false, fluxgate.ReasonCostTooHigh, "tiny"}) || d.RetryAfter != 0 {
			t.Errorf("decided %+v, retry after %v", answerOf(&d), d.RetryAfter)
		}
	})
}

func TestPeek_TakesNothing(t *testing.T) {
	g := newGate(t, []rules.Rule{rule("r", 0, 10)})
	g.check(fluxgate.Request{Cost: 6})
	for _, c := range []struct {
		name string
		cost int64
		want answer
		left int64
	}{
		{"without a cost and tells the state", 0, answer{true, fluxgate.ReasonOK, "r"}, 4},
		{"with a cost that fits", 4, answer{true, fluxgate.ReasonOK, "r"}, 4},
		{"with a cost that does not fit", 5, answer{false, fluxgate.ReasonLimited, "r"}, 4},
		{"with a cost that never fits", 11, answer{false, fluxgate.ReasonCostTooHigh, "r"}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 3 {
				d := g.check(fluxgate.Request{Peek: true, Cost: c.cost})
				if answerOf(&d) != c.want || d.Remaining != c.left || d.Receipt() != nil {
					t.Errorf("decided %+v with %d left and receipt %v", answerOf(&d), d.Remaining, d.Receipt())
				}
			}
		})
	}
	t.Run("without a cost also where nothing is left", func(t *testing.T) {
		g.check(fluxgate.Request{Cost: 4})
		d := g.check(fluxgate.Request{Peek: true})
		if answerOf(&d) != (answer{true, fluxgate.ReasonOK, "r"}) || d.Remaining != 0 || d.ResetAfter != time.Hour {
			t.Errorf("decided %+v with %d left, full after %v", answerOf(&d), d.Remaining, d.ResetAfter)
		}
	})
}

// A rejected request takes no tokens from any rule.
func TestCheck_RejectionTakesNothing(t *testing.T) {
	two := func(id string, priority int, n int64) rules.Rule {
		return rules.Rule{ID: id, Priority: priority, Bands: []rules.Band{perHour("a", n), perHour("b", 2*n)}}
	}
	g := newGate(t, []rules.Rule{two("first", 9, 100), two("second", 5, 100), two("third", 1, 5)})
	if got := g.admitted(5, fluxgate.Request{}); got != 5 {
		t.Fatalf("%d of 5 pass", got)
	}
	for range 10_000 {
		if d := g.check(fluxgate.Request{}); answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "third"}) {
			t.Fatalf("decided %+v", answerOf(&d))
		}
	}
	want := map[string]int64{"first.a": 95, "first.b": 195, "second.a": 95, "second.b": 195, "third.a": 0, "third.b": 5}
	if got := g.left(fluxgate.Request{}); !maps.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

// Random requests to overlapping rules take from every rule that applies or
// from none.
func TestCheck_AllOrNone(t *testing.T) {
	const methods = 4
	capacity := func(i int) int64 { return int64(40 + 37*i) }
	var list []rules.Rule
	for i := range methods { // rule i applies to the first i+1 methods
		r := rule(fmt.Sprint("r", i), i, capacity(i))
		for j := range i + 1 {
			r.Methods = append(r.Methods, fmt.Sprint("M", j))
		}
		list = append(list, r)
	}
	g := newGate(t, list)
	r := rand.New(rand.NewPCG(1, 2))
	used := make([]int64, methods)
	rejected := 0
	for range 400 {
		method, cost := r.IntN(methods), 1+r.Int64N(6)
		fits := true
		for i := method; i < methods; i++ {
			fits = fits && used[i]+cost <= capacity(i)
		}
		if d := g.check(fluxgate.Request{Method: fmt.Sprint("M", method), Cost: cost}); d.Allowed != fits {
			t.Fatalf("allowed %t, the books say %t", d.Allowed, fits)
		}
		if !fits {
			rejected++
			continue
		}
		for i := method; i < methods; i++ {
			used[i] += cost
		}
	}
	if rejected == 0 || rejected == 400 {
		t.Fatalf("%d of 400 were rejected: the test shows nothing", rejected)
	}
	for i, tokens := range used {
		if got := g.left(fluxgate.Request{Method: "M0"})[fmt.Sprintf("r%d.hour", i)]; got != capacity(i)-tokens {
			t.Errorf("rule %d has %d left, the books say %d", i, got, capacity(i)-tokens)
		}
	}
}

func TestCheck_TooManyRules(t *testing.T) {
	many := func(n int, group string) []rules.Rule {
		list := make([]rules.Rule, n)
		for i := range list {
			list[i] = with(rule(fmt.Sprint("r", i), i, 5), func(r *rules.Rule) { r.Group = group })
		}
		return list
	}
	t.Run("refuse the request", func(t *testing.T) {
		g := newGate(t, many(store.MaxMatches+1, ""))
		if d := g.check(fluxgate.Request{}); d.Allowed || d.Reason != fluxgate.ReasonTooManyRules {
			t.Errorf("allowed %t, %s", d.Allowed, d.Reason)
		}
	})
	t.Run("are none where as many as may apply do", func(t *testing.T) {
		g := newGate(t, many(store.MaxMatches, ""))
		d := g.check(fluxgate.Request{})
		if got := len(bands(&d)); !d.Allowed || got != store.MaxMatches {
			t.Errorf("allowed %t by %d rules", d.Allowed, got)
		}
	})
	t.Run("are none where a group leaves one of them", func(t *testing.T) {
		g := newGate(t, many(store.MaxMatches+1, "g"))
		if d := g.check(fluxgate.Request{}); !d.Allowed {
			t.Errorf("decided %+v", answerOf(&d))
		}
	})
}
