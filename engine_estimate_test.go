package fluxgate_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// prices are 2.50 dollars for a million tokens of the prompt, and 10 for a million of
// the answer. Other models cost twice as much.
var prices = rules.CostTables{"usd": {
	"tiny":  {Input: 1, CachedInput: 1, Output: 1, Reasoning: 1},
	"small": {Input: 2_500_000, CachedInput: 1_250_000, Output: 10_000_000, Reasoning: 12_000_000, MaxOutputTokens: 4_000},
	"*":     {Input: 5_000_000, CachedInput: 5_000_000, Output: 20_000_000, Reasoning: 20_000_000, MaxOutputTokens: 8_000},
}}

// counting is a rule that counts a measure.
func counting(measure string, n int64) rules.Rule {
	return with(rule(measure, 1, n), func(r *rules.Rule) { r.Cost = measure })
}

// newPricedGate is a gate with rules that share cost tables.
func newPricedGate(t testing.TB, list ...rules.Rule) *gate {
	t.Helper()
	set, err := ruleSet(t, list...).WithCostTables(prices)
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, list)
	g.Engine = newEngine(t, newStore(t, g.clock.Now), set)
	return g
}

func (g *gate) settleUsage(d fluxgate.Decision, usage fluxgate.Usage) map[string]store.Settlement {
	g.Helper()
	settled, err := g.SettleUsage(g.Context(), d.Receipt(), &usage)
	if err != nil {
		g.Fatal(err)
	}
	return settled
}

// wantLeft compares what the rules have left.
func (g *gate) wantLeft(when string, want map[string]int64) {
	g.Helper()
	for measure, n := range want {
		if got := g.left(fluxgate.Request{})[measure+".hour"]; got != n {
			g.Errorf("%s: %d %s left, want %d", when, got, measure, n)
		}
	}
}

// A request takes from each rule what it counts: its estimate first, then what it has
// used.
func TestEstimate_ThenUsage(t *testing.T) {
	g := newPricedGate(t, rule("requests", 2, 10), counting("tokens", 100_000), counting("usd", 1_000_000), counting("images", 5))
	d := g.check(fluxgate.Request{
		Estimate: &fluxgate.Estimate{Model: "small", InputTokens: 1_000, MaxOutputTokens: 2_000}, Costs: map[string]int64{"images": 2},
	})
	if !d.Allowed {
		t.Fatalf("refused: %+v", d)
	}
	// 1,000 at 2.50 and 2,000 at 12 dollars for a million: 26.5 thousandths.
	g.wantLeft("after the estimate", map[string]int64{"requests": 9, "tokens": 97_000, "usd": 973_500, "images": 3})

	settled := g.settleUsage(d, fluxgate.Usage{InputTokens: 1_000, CachedInputTokens: 401, OutputTokens: 500, ReasoningTokens: 100})
	// 599 at 2.50, 401 at 1.25, 400 at 10 and 100 at 12: 7,198.75 millionths, rounded up.
	g.wantLeft("after the usage", map[string]int64{"requests": 9, "tokens": 98_500, "usd": 992_801, "images": 3})
	want := map[string]store.Settlement{"requests": {}, "tokens": {Returned: 1_500}, "usd": {Returned: 19_301}, "images": {}}
	if fmt.Sprint(settled) != fmt.Sprint(want) {
		t.Errorf("settled %v, want %v", settled, want)
	}
}

// A model that declares no maximum is expected to answer with as much as a table says,
// also where tokens have no table.
func TestEstimate_DefaultMaximum(t *testing.T) {
	for model, most := range map[string]int64{"small": 4_000, "unknown": 8_000} {
		g := newPricedGate(t, counting("tokens", 100_000))
		if d := g.check(fluxgate.Request{Estimate: &fluxgate.Estimate{Model: model, InputTokens: 10}}); d.Remaining != 100_000-10-most {
			t.Errorf("model %s: %d left of 100000", model, d.Remaining)
		}
	}
	g := newPricedGate(t, counting("usd", 100)) // a millionth each: rounded up to one
	if d := g.check(fluxgate.Request{Estimate: &fluxgate.Estimate{Model: "tiny", InputTokens: 992_001}}); d.Remaining != 98 {
		t.Errorf("%d left of 100 for a model without a maximum of its own", d.Remaining)
	}
}

// All measures are limited in one request, all or nothing.
func TestEstimate_AllOrNothing(t *testing.T) {
	for _, short := range []string{"requests", "tokens", "usd"} {
		capacities := map[string]int64{"requests": 10, "tokens": 10_000, "usd": 10_000}
		g := newPricedGate(t, rule("requests", 2, capacities["requests"]), counting("tokens", capacities["tokens"]), counting("usd", capacities["usd"]))
		drain := fluxgate.Request{Costs: map[string]int64{"tokens": 1, "usd": 1}, Cost: 1}
		capacities["requests"]--
		capacities["tokens"]--
		capacities["usd"]--
		if short == "requests" {
			drain.Cost = 10
		} else {
			drain.Costs[short] = 10_000
		}
		capacities[short] = 0
		if !g.check(drain).Allowed {
			t.Fatal("the request that empties one bucket is refused")
		}
		d := g.check(fluxgate.Request{Estimate: &fluxgate.Estimate{Model: "small", InputTokens: 10, MaxOutputTokens: 10}})
		if d.Allowed || d.RuleID != short {
			t.Errorf("no %s left: %+v", short, answerOf(&d))
		}
		g.wantLeft("no "+short+" left", capacities)
	}
}

// A first request is not refused because its estimate, or that of the model, is above
// the limit. It takes all there is, and is settled into debt.
func TestEstimate_AboveTheLimit(t *testing.T) {
	for name, estimate := range map[string]*fluxgate.Estimate{
		"of the model":   {Model: "unknown", InputTokens: 10},
		"declared":       {Model: "small", MaxOutputTokens: 1_000_000},
		"the largest":    {InputTokens: math.MaxInt64, MaxOutputTokens: math.MaxInt64},
		"in the measure": nil,
	} {
		g := newPricedGate(t, counting("usd", 100_000))
		req := fluxgate.Request{Estimate: estimate}
		if estimate == nil {
			req.Costs = map[string]int64{"usd": store.MaxCost}
		}
		d := g.check(req)
		if !d.Allowed {
			t.Errorf("an estimate %s refuses the first request: %+v", name, answerOf(&d))
			continue
		}
		g.wantLeft("an estimate "+name, map[string]int64{"usd": 0})
		if d := g.check(req); d.Allowed {
			t.Errorf("an estimate %s passes an empty bucket", name)
		}
		settled := g.settleUsage(d, fluxgate.Usage{Costs: map[string]int64{"usd": 150_000}})
		if settled["usd"].Charged != 50_000 {
			t.Errorf("an estimate %s was settled with %v", name, settled)
		}
	}
}

// A check of unknown cost is enforced: it passes only while something is left.
func TestEstimate_ZeroCostIsEnforced(t *testing.T) {
	g := newPricedGate(t, counting("tokens", 100))
	unknown, zero := fluxgate.Request{}, fluxgate.Request{Costs: map[string]int64{"tokens": 0}}
	d := g.check(unknown)
	if !d.Allowed {
		t.Fatal("a first request is refused")
	}
	g.settleUsage(d, fluxgate.Usage{InputTokens: 60, OutputTokens: 40})
	for name, req := range map[string]fluxgate.Request{"unknown": unknown, "zero": zero, "with an estimate of zero": {Estimate: &fluxgate.Estimate{}}} {
		if d := g.check(req); d.Allowed || d.RetryAfter == 0 {
			t.Errorf("a cost that is %s passes an empty bucket: %+v", name, answerOf(&d))
		}
	}
}

// What was taken is settled once, by the weights it was taken with. What is not known
// stays at its estimate.
func TestSettleUsage_OnceAndKnown(t *testing.T) {
	g := newPricedGate(t, rule("requests", 2, 10), counting("tokens", 1_000), counting("images", 10))
	req := fluxgate.Request{Costs: map[string]int64{"tokens": 300, "images": 4}}
	d := g.check(req)
	for name, usage := range map[string]fluxgate.Usage{
		"a negative number": {OutputTokens: -1}, "more cached than sent": {InputTokens: 1, CachedInputTokens: 2},
		"more reasoning than answer": {ReasoningTokens: 1}, "a negative cost": {Costs: map[string]int64{"images": -1}},
	} {
		if _, err := g.SettleUsage(t.Context(), d.Receipt(), &usage); !errors.Is(err, fluxgate.ErrCost) {
			t.Errorf("a usage with %s: %v", name, err)
		}
	}
	if _, err := g.SettleUsage(t.Context(), d.Receipt(), nil); !errors.Is(err, fluxgate.ErrCost) {
		t.Errorf("no usage: %v", err)
	}
	g.settleUsage(d, fluxgate.Usage{InputTokens: 100})
	g.wantLeft("settled", map[string]int64{"requests": 9, "tokens": 900, "images": 6})
	if _, err := g.SettleUsage(t.Context(), d.Receipt(), &fluxgate.Usage{}); !errors.Is(err, fluxgate.ErrSettled) {
		t.Errorf("settled again: %v", err)
	}

	d = g.check(req) // the cost of requests says nothing of tokens
	if _, err := g.Settle(t.Context(), d.Receipt(), 3); err != nil {
		t.Fatal(err)
	}
	g.wantLeft("settled at 3 requests", map[string]int64{"requests": 6, "tokens": 600, "images": 2})

	d = g.check(fluxgate.Request{Costs: map[string]int64{"tokens": 300, "images": 2}})
	if _, err := g.Settle(t.Context(), d.Receipt(), 0); err != nil {
		t.Fatal(err)
	}
	g.wantLeft("withdrawn", map[string]int64{"requests": 6, "tokens": 600, "images": 2})
}

// Costs that cannot be are refused before anything is taken.
func TestEstimate_Invalid(t *testing.T) {
	g := newPricedGate(t, counting("tokens", 100))
	for name, req := range map[string]fluxgate.Request{
		"number of requests beside Cost": {Costs: map[string]int64{"requests": 1}},
		"cost":                           {Costs: map[string]int64{"tokens": -1}}, "prompt": {Estimate: &fluxgate.Estimate{InputTokens: -1}}, "maximum": {Estimate: &fluxgate.Estimate{MaxOutputTokens: -1}},
	} {
		if _, err := g.Check(t.Context(), &req); !errors.Is(err, fluxgate.ErrCost) {
			t.Errorf("an invalid %s: %v", name, err)
		}
	}
}

// A usage of other costs does not give tokens and money back, unless it says that they
// were not used. An empty usage says so.
func TestSettleUsage_WithoutTokens(t *testing.T) {
	for name, c := range map[string]struct {
		usage       fluxgate.Usage
		tokens, usd int64
	}{
		"costs alone":       {fluxgate.Usage{Costs: map[string]int64{"images": 1}}, 700, 999_000},
		"money alone":       {fluxgate.Usage{Costs: map[string]int64{"usd": 400}}, 700, 999_600},
		"tokens of 0":       {fluxgate.Usage{Costs: map[string]int64{"tokens": 0}}, 1_000, 999_000},
		"costs and tokens":  {fluxgate.Usage{OutputTokens: 100, Costs: map[string]int64{"usd": 400}}, 900, 999_600},
		"nothing was used":  {fluxgate.Usage{}, 1_000, 1_000_000},
		"no cost is listed": {fluxgate.Usage{Costs: map[string]int64{}}, 1_000, 1_000_000},
	} {
		g := newPricedGate(t, counting("tokens", 1_000), counting("usd", 1_000_000), counting("images", 10))
		d := g.check(fluxgate.Request{Costs: map[string]int64{"tokens": 300, "usd": 1_000, "images": 4}})
		g.settleUsage(d, c.usage)
		g.wantLeft(name, map[string]int64{"tokens": c.tokens, "usd": c.usd})
	}
}

// A fallback has a share of the bands, and its estimates are at most that. What has been
// used is debited in full, and a look without a cost takes nothing.
func TestEstimate_Fallback(t *testing.T) {
	for name, c := range map[string]struct {
		overdraft bool
		owed      int64
	}{"an estimate": {false, 0}, "an overdraft": {true, 5}} {
		r := counting("tokens", 100)
		r.Overdraft = c.overdraft
		store := &faulty{Store: newStore(t, nil), fails: errors.New("away")}
		engine := newEngine(t, store, ruleSet(t, r), fluxgate.WithFallback(newStore(t, nil)), fluxgate.WithFallbackShare(0.1))
		if d := check(t, engine, fluxgate.Request{Costs: map[string]int64{"tokens": 15}}); !d.Allowed || d.Remaining != 0 || d.Owed != c.owed {
			t.Errorf("%s above the share: %+v, %d left, %d owed", name, answerOf(&d), d.Remaining, d.Owed)
		}
		if d := check(t, engine, fluxgate.Request{Peek: true}); d.Allowed == c.overdraft {
			t.Errorf("a look after %s: %+v", name, answerOf(&d))
		}
	}
}

// Cost tables are checked with their rule set.
func TestCostTables_Invalid(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		want     string
	}{
		"without an entry for other models": {`{"usd": {"small": {"input": 1, "output": 1}}}`, `costTables.usd["*"]`},
		"of requests":                       {`{"requests": {"*": {"input": 1, "output": 1}}}`, "requests have no weights"},
		"with a negative weight":            {`{"usd": {"*": {"input": -1, "output": 1}}}`, `costTables.usd["*"].input`},
		"with a weight that is too large":   {`{"usd": {"*": {"input": 1, "output": 1000000000000001}}}`, `costTables.usd["*"].output`},
		"without an output weight":          {`{"usd": {"*": {"input": 1}}}`, `costTables.usd["*"].output`},
		"with an unknown field":             {`{"usd": {"*": {"input": 1, "output": 1, "outpt": 1}}}`, "outpt"},
		"that is a list":                    {`[]`, "costTables"},
		"with a model that is null":         {`{"usd": {"*": null}}`, `costTables.usd["*"]`},
		"in dollars":                        {`{"usd": {"*": {"input": 2.50, "output": 1}}}`, `costTables.usd["*"].input: must be a whole number (of money in millionths: 2.50 is 2500000)`},
		"of a rule":                         {`{}, "rules": [{"id": "r", "costTables": {}}]`, `rules[0].costTables: is not a known field`},
	} {
		document := `{"id": "api", "costTables": ` + c.document
		if !strings.Contains(document, `"rules"`) {
			document += `, "rules": []`
		}
		_, err := rules.Parse([]byte(document + `}`))
		var invalid *rules.ValidationError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a table %s: %v", name, err)
		}
	}
}

// A measure in another case is no other measure.
func TestRule_MisspelledMeasure(t *testing.T) {
	for cost, meant := range map[string]string{"Tokens": "tokens", "REQUESTS": "requests", "USD": "usd", "usd": "", "images": ""} {
		_, err := rules.Parse([]byte(`{"id": "api", "costTables": {"usd": {"*": {"input": 1, "output": 1}}},
			"rules": [{"id": "r", "cost": "` + cost + `", "bands": [{"capacity": 1, "refill": "1s"}]}]}`))
		if meant == "" && err != nil || meant != "" && (err == nil || !strings.Contains(err.Error(), "rules[0].cost: is not a known measure: did you mean "+meant+"?")) {
			t.Errorf("%s: %v", cost, err)
		}
	}
}

// Cost tables survive a change of the rules, and are written as they were read.
func TestCostTables_Kept(t *testing.T) {
	set, err := rules.Parse([]byte(`{"id": "api", "costTables": {"usd": {"*": {"input": 2, "cachedInput": 0, "output": 3}}}, "rules": []}`))
	if err != nil {
		t.Fatal(err)
	}
	if set, err = set.WithRules(counting("usd", 10)); err != nil {
		t.Fatal(err)
	}
	text, err := set.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if tables := `"costTables":{"usd":{"*":{"input":2,"cachedInput":0,"output":3}}}`; !strings.Contains(string(text), tables) {
		t.Errorf("%s\nwant %s", text, tables)
	}
	if set, err = rules.Parse(text); err != nil {
		t.Fatal(err)
	}
	want := rules.Weights{Input: 2, Output: 3, Reasoning: 3}
	if got := set.CostTables()["usd"]["*"]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if r, _ := set.Rule("usd"); r.Cost != "usd" {
		t.Errorf("the rule counts %q", r.Cost)
	}
}
