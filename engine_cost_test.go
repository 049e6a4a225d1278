package fluxgate_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Numbers that no store can count are refused as an invalid cost. They take nothing, and use up
// no receipt.
func TestCost_AboveLargest(t *testing.T) {
	tokens := rules.Rule{ID: "tokens", Cost: rules.MeasureTokens, Bands: []rules.Band{perHour("hour", 100)}}
	g := newGate(t, []rules.Rule{rule("r", 0, 100), tokens})
	for _, n := range []int64{store.MaxCost + 1, 1 << 60, math.MaxInt64} {
		of := map[string]int64{rules.MeasureTokens: n}
		for _, req := range []fluxgate.Request{
			{Cost: n}, {Cost: n, Peek: true}, {Costs: of},
		} {
			if _, err := g.Check(t.Context(), &req); !errors.Is(err, fluxgate.ErrCost) {
				t.Errorf("%+v: %v", req, err)
			}
			if _, err := g.Refund(t.Context(), &req); !errors.Is(err, fluxgate.ErrCost) {
				t.Errorf("giving back %+v: %v", req, err)
			}
			if _, _, err := g.CheckAll(t.Context(), []fluxgate.Request{{}, req}); !errors.Is(err, fluxgate.ErrCost) {
				t.Errorf("with another: %+v: %v", req, err)
			}
		}
		d := g.check(fluxgate.Request{})
		if _, err := g.Settle(t.Context(), d.Receipt(), n); !errors.Is(err, fluxgate.ErrCost) {
			t.Errorf("settling at %d: %v", n, err)
		}
		for _, usage := range []fluxgate.Usage{
			{InputTokens: n}, {OutputTokens: n}, {InputTokens: n, CachedInputTokens: n}, {OutputTokens: n, ReasoningTokens: n}, {Costs: of},
		} {
			if _, err := g.SettleUsage(t.Context(), d.Receipt(), &usage); !errors.Is(err, fluxgate.ErrCost) {
				t.Errorf("settling at %+v: %v", usage, err)
			}
		}
		if _, err := g.Settle(t.Context(), d.Receipt(), 0); err != nil {
			t.Errorf("the receipt is used up: %v", err)
		}
		if left := g.left(fluxgate.Request{}); left["r.hour"] != 100 || left["tokens.hour"] != 100 {
			t.Errorf("%v are left", left)
		}
	}
}

// The largest numbers are decided, charged and added up. They end in the largest debt.
func TestCost_Largest(t *testing.T) {
	day := rules.Band{Label: "day", Kind: rules.Quota, Capacity: 100, Period: "day"}
	const most = 1_000_000_000_000
	weights := rules.CostTables{"usd": {rules.AnyModel: {Input: most, CachedInput: most, Output: most, Reasoning: most}}}
	for name, r := range map[string]rules.Rule{
		"a bucket": rule("r", 0, 100), "an overdraft": with(rule("r", 0, 100), func(r *rules.Rule) { r.Overdraft = true }),
		"a quota": {ID: "r", Bands: []rules.Band{day}}, "refused hits": {ID: "r", CountRefused: true, Bands: []rules.Band{day}},
		"slots": {ID: "r", Bands: []rules.Band{{Label: "slots", Kind: rules.Concurrency, Capacity: 100, Hold: time.Minute}}},
		"money": {ID: "r", Cost: "usd", Bands: []rules.Band{perHour("hour", 100)}},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := ruleSet(t, r).WithCostTables(weights)
			if err != nil {
				t.Fatal(err)
			}
			g := &gate{TB: t, Engine: newEngine(t, newStore(t, nil), set)}
			for range 3 {
				largest := fluxgate.Request{Cost: store.MaxCost, Estimate: &fluxgate.Estimate{InputTokens: math.MaxInt64, MaxOutputTokens: math.MaxInt64}}
				g.check(largest)
				if _, _, err := g.CheckAll(t.Context(), []fluxgate.Request{largest, largest, largest}); err != nil {
					t.Error(err)
				}
				d := g.check(fluxgate.Request{Cost: 1})
				if _, err := g.SettleUsage(t.Context(), d.Receipt(), &fluxgate.Usage{InputTokens: store.MaxCost, OutputTokens: store.MaxCost}); err != nil {
					t.Error(err)
				}
				d = g.check(fluxgate.Request{Cost: 1})
				if _, err := g.Settle(t.Context(), d.Receipt(), store.MaxCost); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
