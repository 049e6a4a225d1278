package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/storetest"
)

func tier(name string, cost int64) fluxgate.Request {
	return fluxgate.Request{Attributes: map[string]string{"tier": name}, Cost: cost}
}

func look(name string) fluxgate.Request {
	req := tier(name, 0)
	req.Peek = true
	return req
}

func perTier(name string, band rules.Band) rules.Rule {
	return rules.Rule{ID: name, When: rules.When{Attributes: map[string][]string{"tier": {name}}}, Bands: []rules.Band{band}}
}

func (g *gate) checkAll(reqs ...fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision) {
	g.Helper()
	d, each, err := g.CheckAll(g.Context(), reqs)
	if err != nil {
		g.Fatal(err)
	}
	return d, each
}

// What is left in the buckets of tiers.
func (g *gate) tokens(names ...string) map[string]int64 {
	g.Helper()
	all := map[string]int64{}
	for _, name := range names {
		req := look(name)
		d := g.check(req)
		for b := range d.Bands() {
			all[name] = b.Remaining - b.Owed
		}
	}
	return all
}

// Requests that are checked together take together or not at all, and each has its own
// decision.
func TestCheckAll_AllOrNothing(t *testing.T) {
	g := newGate(t, []rules.Rule{perTier("small", rules.PerHour(3)), perTier("large", rules.PerHour(10))})
	for range 3 {
		d, each := g.checkAll(tier("small", 1), tier("large", 2), tier("unknown", 1))
		if !d.Allowed || d.Receipt() == nil || !each[0].Allowed || each[0].Limit != 3 || each[1].Limit != 10 || each[2].Reason != fluxgate.ReasonNoRule {
			t.Fatalf("decided %+v, each %+v", d, each)
		}
		if each[0].Receipt() != nil {
			t.Error("the decision for one request has a receipt")
		}
	}
	d, each := g.checkAll(tier("small", 1), tier("large", 2))
	if d.Allowed || d.RuleID != "small" || each[0].Allowed || each[0].RetryAfter == 0 || !each[1].Allowed || each[1].RuleID != "large" || each[1].Remaining != 4 {
		t.Errorf("decided %+v, each %+v", d, each)
	}
	if got, want := g.tokens("small", "large"), (map[string]int64{"small": 0, "large": 4}); !maps.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}

// Requests that count in the same bucket add up there.
func TestCheckAll_SameBucket(t *testing.T) {
	g := newGate(t, []rules.Rule{perTier("small", rules.PerHour(5))})
	if d, each := g.checkAll(tier("small", 2), tier("small", 2)); !d.Allowed || each[0].Remaining != 1 || each[1].Remaining != 1 {
		t.Errorf("decided %+v, each %+v", d, each)
	}
	if d, each := g.checkAll(tier("small", 1), tier("small", 1)); d.Allowed || each[0].Allowed || each[1].Allowed {
		t.Errorf("decided %+v, each %+v", d, each)
	}
	if d, _ := g.checkAll(look("small"), look("small")); !d.Allowed || g.tokens("small")["small"] != 1 {
		t.Errorf("a look took tokens: %+v", d)
	}
}

// A request that is refused without the store keeps the others from taking, except from
// overdrafts.
func TestCheckAll_Denied(t *testing.T) {
	deny := perTier("banned", rules.Band{})
	deny.Action, deny.Bands = rules.ActionDeny, nil
	used := perTier("used", rules.PerHour(100))
	used.Overdraft = true
	g := newGate(t, []rules.Rule{deny, used, perTier("small", rules.PerHour(5))})
	d, each := g.checkAll(tier("small", 1), tier("banned", 1), tier("used", 30))
	if d.Allowed || d.Reason != fluxgate.ReasonDenied || !each[0].Allowed || each[1].Reason != fluxgate.ReasonDenied || !each[2].Allowed {
		t.Errorf("decided %+v, each %+v", d, each)
	}
	if got, want := g.tokens("small", "used"), (map[string]int64{"small": 5, "used": 70}); !maps.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}

// The most demands of a call that is refused without the store are debited, in the store and in
// the fallback.
func TestCheckAll_MostDebits(t *testing.T) {
	banned := perTier("banned", rules.Band{})
	banned.Action, banned.Bands = rules.ActionDeny, nil
	list, reqs, ids := []rules.Rule{banned}, []fluxgate.Request{tier("banned", 1)}, []string{}
	for i := range store.MaxMatches {
		r := perTier(fmt.Sprint("r", i), rules.Band{Kind: rules.Quota, Capacity: 5, Period: "day"})
		if r.CountRefused = true; i%2 == 0 {
			r.CountRefused, r.Overdraft = false, true
		}
		list, reqs, ids = append(list, r), append(reqs, tier(r.ID, 7)), append(ids, r.ID)
	}
	for _, away := range []bool{false, true} {
		f := newFailing(t, 1, list)
		if away {
			f.store.setFails(errAway)
		}
		if d, _, err := f.CheckAll(t.Context(), reqs); err != nil || d.Allowed || d.Reason != fluxgate.ReasonDenied {
			t.Fatalf("store away %t: decided %+v, %v", away, d, err)
		}
		for _, id := range ids {
			if d := f.check(fluxgate.Request{Attributes: map[string]string{"tier": id}, Peek: true}); d.Owed-d.Remaining != 2 {
				t.Errorf("store away %t: rule %s has %d left and owes %d", away, id, d.Remaining, d.Owed)
			}
		}
	}
}

// A call that is refused without the store is counted where it is over, and nowhere else. An
// alternative that denies refuses only alone, and a rule that is replaced does not apply.
func TestCheckAll_CountsRefused(t *testing.T) {
	counts := func(id string, mode rules.Mode, replaces ...string) rules.Rule {
		r := perTier(id, rules.Band{Kind: rules.Quota, Capacity: 5, Period: "day"})
		r.CountRefused, r.Mode, r.Replaces = true, mode, replaces
		return r
	}
	banned := perTier("banned", rules.Band{})
	banned.Action, banned.Bands = rules.ActionDeny, nil
	empty := banned
	empty.ID, empty.When, empty.Mode = "empty", perTier("empty", rules.Band{}).When, rules.ModeAlternative
	g := newGate(t, []rules.Rule{counts("a", ""), counts("b", ""), counts("one", rules.ModeAlternative), counts("plan", "", "a", "banned"), banned, empty})
	for i, step := range []struct {
		reqs    []fluxgate.Request
		allowed bool
		left    map[string]int64
	}{
		{[]fluxgate.Request{tier("a", 6), tier("b", 2), tier("banned", 1)}, false, map[string]int64{"a": -1, "b": 5}},
		{[]fluxgate.Request{tier("empty", 1), tier("one", 4)}, true, map[string]int64{"one": 1}},
		{[]fluxgate.Request{tier("empty", 1), tier("one", 4), tier("b", 1)}, false, map[string]int64{"one": -3, "b": 5}},
		{[]fluxgate.Request{tier("empty", 1), tier("b", 1)}, false, map[string]int64{"b": 5}},
		{[]fluxgate.Request{tier("a", 1), tier("banned", 1), tier("plan", 2)}, true, map[string]int64{"a": -1, "plan": 3}},
	} {
		if d, each := g.checkAll(step.reqs...); d.Allowed != step.allowed {
			t.Errorf("step %d: decided %+v, each %+v", i, d, each)
		}
		for id, want := range step.left {
			if got := g.tokens(id)[id]; got != want {
				t.Errorf("step %d: %s has %d left, want %d", i, id, got, want)
			}
		}
	}
}

// An overdraft is debited whatever the other requests say, up to the largest debt. While
// nothing is left a look is refused.
func TestCheckAll_Overdraft(t *testing.T) {
	used := perTier("used", rules.PerHour(800))
	used.Overdraft = true
	g := newGate(t, []rules.Rule{used, perTier("small", rules.PerHour(1))})
	g.checkAll(tier("small", 1))
	if d, each := g.checkAll(tier("small", 1), tier("used", 1_200)); d.Allowed || each[0].Allowed || !each[1].Allowed {
		t.Errorf("decided %+v, each %+v", d, each)
	}
	if got := g.tokens("used")["used"]; got != -400 {
		t.Errorf("left are %d tokens, want a debt of 400", got)
	}
	if d, _ := g.checkAll(look("used")); d.Allowed {
		t.Errorf("a look in debt is allowed: %+v", d)
	}
	if d, _ := g.checkAll(tier("used", 10)); d.Allowed || g.tokens("used")["used"] != -410 {
		t.Errorf("a charge in debt: %+v, left are %v", d, g.tokens("used"))
	}
	if _, err := g.Refund(t.Context(), new(tier("used", 411))); err != nil {
		t.Fatal(err)
	}
	if d, _ := g.checkAll(look("used")); !d.Allowed || d.Remaining != 1 {
		t.Errorf("a look after a refund: %+v", d)
	}
	for range 2 {
		g.checkAll(tier("used", 1_000_000))
		if got := g.tokens("used")["used"]; got < -801 {
			t.Errorf("left are %d tokens, want the largest debt, an hour of refill", got)
		}
	}
}

// A refund without receipt gives back at most what is used, whatever the kind of band.
func TestRefund(t *testing.T) {
	for name, band := range map[string]rules.Band{
		"token bucket": rules.PerSecond(1_000), "quota": {Kind: rules.Quota, Capacity: 1_000, Period: "day"},
		"sliding window": {Kind: rules.SlidingWindow, Capacity: 1_000, Refill: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, []rules.Rule{perTier("a", band)})
			g.checkAll(tier("a", 600))
			for _, c := range []struct{ refund, left int64 }{{100, 500}, {1, 501}, {10_000, 1_000}} {
				d, err := g.Refund(t.Context(), new(tier("a", c.refund)))
				if got := g.tokens("a")["a"]; err != nil || got != c.left || d.Remaining != c.left || !d.Allowed {
					t.Errorf("%d given back: %d left, want %d: %+v, %v", c.refund, got, c.left, d, err)
				}
			}
			if g.admitted(1_100, tier("a", 1)) != 1_000 {
				t.Error("a refund gave more than the capacity")
			}
		})
	}
	counts := perTier("a", rules.Band{Kind: rules.Quota, Capacity: 5, Period: "day"})
	counts.CountRefused = true
	g := newGate(t, []rules.Rule{counts})
	g.checkAll(tier("a", 50))
	for _, c := range []struct{ refund, left, remaining int64 }{{30, -15, 0}, {17, 2, 2}, {store.MaxCost, 5, 5}} {
		d, err := g.Refund(t.Context(), new(tier("a", c.refund)))
		if got := g.tokens("a")["a"]; err != nil || got != c.left || d.Remaining != c.remaining {
			t.Errorf("%d refused hits given back: %d left, want %d: %+v, %v", c.refund, got, c.left, d, err)
		}
	}
	g = newGate(t, []rules.Rule{perTier("a", rules.PerHour(5))})
	if d, err := g.Refund(t.Context(), new(tier("b", 1))); err != nil || d.Reason != fluxgate.ReasonNoRule {
		t.Errorf("nothing to give back: %+v, %v", d, err)
	}
}

// A refund that the store does not get is an error: nothing came back.
func TestRefund_NotSent(t *testing.T) {
	s := &stalled{Store: newStore(t, storetest.NewClock().Now)}
	engine := newEngine(t, s, ruleSet(t, perTier("a", rules.PerHour(5))))
	s.now.Store(true)
	if d, err := engine.Refund(t.Context(), new(tier("a", 1))); !errors.Is(err, store.ErrNotSent) {
		t.Errorf("given back: %+v, %v", d, err)
	}
}

// The limit of a request replaces the rules, and counts by the descriptor.
func TestCheckAll_Limit(t *testing.T) {
	deny := rules.Rule{ID: "deny", Action: rules.ActionDeny}
	g := newGate(t, []rules.Rule{deny})
	req := func(value string, capacity int64) fluxgate.Request {
		return fluxgate.Request{
			Descriptor: []fluxgate.DescriptorEntry{{Key: "user", Value: value}},
			Limit:      &rules.Band{Kind: rules.Quota, Capacity: capacity, Period: "hour"},
		}
	}
	for range 2 {
		if d, each := g.checkAll(req("ann", 2), req("bob", 5)); !d.Allowed || each[0].Limit != 2 || each[1].Limit != 5 || d.RuleID != fluxgate.RequestLimit {
			t.Fatalf("decided %+v, each %+v", d, each)
		}
	}
	if d, each := g.checkAll(req("ann", 2), req("bob", 5)); d.Allowed || each[0].Allowed || each[1].Remaining != 3 {
		t.Errorf("decided %+v, each %+v", d, each)
	}
	if d, _ := g.checkAll(req("ann", 0)); d.Allowed {
		t.Errorf("a limit of 0 admits: %+v", d)
	}
	if d, _ := g.checkAll(fluxgate.Request{}); d.Reason != fluxgate.ReasonDenied {
		t.Errorf("without a limit: %+v", d)
	}
}

// Limits of different units for one descriptor count separately, and of two numbers for
// the same unit the lower one applies.
func TestCheckAll_SeveralLimits(t *testing.T) {
	g := newGate(t, nil)
	req := func(capacity int64, period rules.Period) fluxgate.Request {
		return fluxgate.Request{
			Descriptor: []fluxgate.DescriptorEntry{{Key: "user", Value: "ann"}},
			Limit:      &rules.Band{Kind: rules.Quota, Capacity: capacity, Period: period},
		}
	}
	for range 2 {
		if d, each := g.checkAll(req(10, "second"), req(2, "day")); !d.Allowed || each[0].Limit != 10 || each[1].Limit != 2 {
			t.Fatalf("decided %+v, each %+v", d, each)
		}
	}
	if d, each := g.checkAll(req(10, "second"), req(2, "day")); d.Allowed || !each[0].Allowed || each[1].Allowed {
		t.Errorf("the third of 2 a day: %+v, each %+v", d, each)
	}
	if d, _ := g.checkAll(req(10, "second")); !d.Allowed {
		t.Errorf("10 a second: %+v", d)
	}
	if d, _ := g.checkAll(req(4, "day")); !d.Allowed || d.Remaining != 0 { // 3 are counted
		t.Errorf("a limit of a day that is raised by one admits one more: %+v", d)
	}
	for _, reqs := range [][]fluxgate.Request{{req(100, "hour"), req(1, "hour")}, {req(1, "hour"), req(100, "hour")}} {
		if d, _ := g.checkAll(reqs...); d.Allowed || d.Limit != 1 {
			t.Errorf("two of 1 an hour: %+v", d)
		}
	}
}

// More rules than one request may have refuse the call, and take nothing.
func TestCheckAll_TooMany(t *testing.T) {
	rule := perTier("a", rules.PerHour(1_000))
	rule.Scope, rule.KeyFields = rules.ScopeComposite, []string{"attr:id"}
	rule.When.Attributes = nil
	g := newGate(t, []rules.Rule{rule})
	var reqs []fluxgate.Request
	for i := range store.MaxMatches + 1 {
		reqs = append(reqs, fluxgate.Request{Attributes: map[string]string{"id": string(rune('a' + i))}})
	}
	if d, _ := g.checkAll(reqs[1:]...); !d.Allowed {
		t.Errorf("%d buckets: %+v", store.MaxMatches, d)
	}
	d, each := g.checkAll(reqs...)
	if d.Reason != fluxgate.ReasonTooManyRules || !each[0].Allowed || each[len(each)-1].Allowed {
		t.Errorf("one more: %+v", d)
	}
	if d := g.check(reqs[0]); d.Remaining != 999 {
		t.Errorf("a refused call took: %+v", d)
	}
}

func TestCheckAll_Wrong(t *testing.T) {
	g := newGate(t, []rules.Rule{perTier("a", rules.PerHour(5))})
	withCost := look("a")
	withCost.Cost = 1
	other := tier("a", 1)
	other.RuleSet = "other"
	for name, reqs := range map[string][]fluxgate.Request{
		"none": nil, "a look with a cost": {withCost}, "two rule sets": {tier("a", 1), other},
	} {
		if _, _, err := g.CheckAll(t.Context(), reqs); !errors.Is(err, store.ErrDemand) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := g.CheckAll(t.Context(), []fluxgate.Request{tier("a", -1)}); !errors.Is(err, fluxgate.ErrCost) {
		t.Errorf("a negative cost: %v", err)
	}
}

// While the store is away each request is decided by the failure mode of its rule.
func TestCheckAll_StoreAway(t *testing.T) {
	closed := perTier("closed", rules.PerHour(5))
	closed.OnFailure = rules.FailClosed
	open := perTier("open", rules.PerHour(5))
	open.OnFailure = rules.FailOpen
	g := newFailing(t, 0, []rules.Rule{closed, open})
	g.store.setFails(errAway)
	d, each, err := g.CheckAll(t.Context(), []fluxgate.Request{tier("open", 1), tier("closed", 1)})
	if err != nil || d.Allowed || !each[0].Allowed || each[1].Allowed || each[1].Reason != fluxgate.ReasonStoreFailure || !each[0].Degraded {
		t.Errorf("decided %+v, each %+v, %v", d, each, err)
	}
	if _, err := g.Refund(t.Context(), new(tier("open", 1))); err == nil {
		t.Error("a refund that failed is no error")
	}
	g.store.setFails(nil)
	g.away("open")
	if _, err := g.Refund(t.Context(), new(tier("open", 1))); err == nil {
		t.Error("a refund of which a part failed is no error")
	}
}

// replacing has a new rule set, with the same rules, on every call.
type replacing struct {
	testing.TB
	rules []rules.Rule
}

func (r replacing) RuleSet(context.Context, string) *fluxgate.Compiled {
	return compile(ruleSet(r, r.rules...))
}

// Requests that are decided together are decided by one version of the rules, while these
// are replaced.
func TestCheckAll_RulesReplaced(t *testing.T) {
	engine, err := fluxgate.New(newStore(t, nil), replacing{t, []rules.Rule{perTier("a", rules.PerHour(5)), perTier("b", rules.PerHour(5))}}, fluxgate.WithRuleSet("api"))
	if err != nil {
		t.Fatal(err)
	}
	if d, each, err := engine.CheckAll(t.Context(), []fluxgate.Request{tier("a", 1), tier("b", 1)}); err != nil || !d.Allowed || len(each) != 2 {
		t.Errorf("decided %+v, %v", d, err)
	}
}

// The receipt of a charge that put a quota into debt gives all of it back.
func TestCheckAll_OverdraftReceipt(t *testing.T) {
	for name, band := range map[string]rules.Band{
		"token bucket": rules.PerHour(800), "quota": {Kind: rules.Quota, Capacity: 800, Period: "day"},
	} {
		t.Run(name, func(t *testing.T) {
			used := perTier("used", band)
			used.Overdraft = true
			g := newGate(t, []rules.Rule{used})
			d, _ := g.checkAll(tier("used", 1_200))
			if _, err := g.Settle(t.Context(), d.Receipt(), 0); err != nil {
				t.Fatal(err)
			}
			if got := g.tokens("used")["used"]; got != 800 {
				t.Errorf("left are %d tokens, want 800", got)
			}
		})
	}
}

// An observer sees requests that are decided together once, by one that takes.
func TestCheckAll_Observer(t *testing.T) {
	seen := new(recorder)
	g := newGate(t, []rules.Rule{perTier("a", rules.PerHour(5)), perTier("b", rules.PerHour(5))}, fluxgate.WithObserver(seen))
	taking := tier("b", 1)
	taking.Path = "/taking"
	g.checkAll(look("a"), taking)
	if got, want := seen.all(), []string{"decided: /taking ok, 2 bands"}; !slices.Equal(got, want) {
		t.Errorf("seen are %q, want %q", got, want)
	}
}

// A request that is held for several rules is held once, and its tokens are given back if
// it leaves.
func TestCheckAll_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := perTier("slow", rules.PerMinute(60))
		slow.OnLimitExceed = rules.WaitForRefill
		engine := newEngine(t, newStore(t, nil), ruleSet(t, slow, perTier("other", rules.PerHour(5))), fluxgate.WithWaiting(10*time.Second, 10))
		if _, _, err := engine.CheckAll(t.Context(), []fluxgate.Request{tier("slow", 60)}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		d, each, err := engine.CheckAll(t.Context(), []fluxgate.Request{tier("slow", 3), tier("other", 1)})
		if took := time.Since(began); err != nil || !d.Allowed || took != 3*time.Second || each[0].Wait != took || each[1].Wait != 0 {
			t.Errorf("after %v: %+v, %+v, %v", took, d, each, err)
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if d, _, err := engine.CheckAll(ctx, []fluxgate.Request{tier("slow", 3), tier("other", 1)}); err != nil || d.Allowed {
			t.Errorf("held beyond the deadline: %+v, %v", d, err)
		}
		if left := left(t, engine, tier("other", 0)); left["other.5-per-1h"] != 4 {
			t.Errorf("left are %v", left)
		}
	})
}
