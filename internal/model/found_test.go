package model

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

const ms = time.Millisecond

// Histories that once broke the specification keep to it.
func TestHistories_Found(t *testing.T) {
	window := func(period time.Duration) []rules.Rule {
		return []rules.Rule{{ID: "r1", Scope: rules.ScopeGlobal, Cost: rules.MeasureTokens, Bands: []rules.Band{
			{Capacity: 30, Refill: period, Kind: rules.SlidingWindow},
		}}}
	}
	overdraft := func(capacity int64) []rules.Rule {
		return []rules.Rule{{ID: "r1", Scope: rules.ScopeGlobal, Overdraft: true, Bands: []rules.Band{
			{Label: "burst", Capacity: capacity, Kind: rules.Quota, Period: "second"},
		}}}
	}
	plan := func(b rules.Band) []rules.Rule {
		b.Label = "plan"
		return []rules.Rule{{ID: "r1", Scope: rules.ScopeGlobal, Cost: rules.MeasureTokens, Bands: []rules.Band{b}}}
	}
	owing := func(capacity int64) []rules.Rule {
		return []rules.Rule{{ID: "r1", Scope: rules.ScopeGlobal, Overdraft: true, Bands: []rules.Band{
			{Label: "burst", Capacity: capacity, Kind: rules.Quota, Period: "minute"},
			{Label: "third", Capacity: 3, Refill: 200 * ms},
		}}}
	}
	for name, h := range map[string]*History{
		// The window of the new period began after the takes had left theirs: it never counted them.
		"a take is given back to a window of another period": {
			Gateways: []Gateway{{Latency: 200 * time.Microsecond, SeesRules: 300 * ms}},
			Versions: [][]rules.Rule{window(1600 * ms), window(time.Minute)},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 2, Span: 100 * ms, Cost: 1, Tokens: 1, Lasts: 2 * time.Second, Actual: 1, SettleAt: -1},
				{Kind: OpRules, SettleAt: -1, Version: 1},
				{At: time.Second, Kind: OpCheck, Caller: "a", N: 9, Span: 1100 * ms, Cost: 1, Tokens: 50, Actual: -1, SettleAt: -1},
				{At: 5100 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 5100 * ms,
		},
		// The charge of 20 tokens was lost, and 19 of them came back from the charges of others.
		"a settlement of a take whose charge was lost": {
			Seed:     7011897,
			Gateways: []Gateway{{Latency: 200 * time.Microsecond}},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{{Label: "burst", Capacity: 500, Refill: time.Hour}}}}},
			Ops: []Op{
				{Kind: OpFault, Span: 2 * time.Second, SettleAt: -1, Fault: "lost-answers"},
				{At: 100 * ms, Kind: OpCheck, Caller: "a", N: 2, Cost: 1, Tokens: 1, Actual: -1, SettleAt: -1},
				{At: 816 * ms, Kind: OpCheck, Caller: "a", N: 1, Cost: 20, Tokens: 1, Lasts: 2 * time.Second, Actual: 1, SettleAt: -1},
				{At: 1422 * ms, Kind: OpFault, Span: time.Second, SettleAt: -1, Fault: "lossy"},
				{At: 2205 * ms, Kind: OpCheck, Caller: "a", N: 20, Span: time.Second, Cost: 1, Tokens: 1, Actual: -1, SettleAt: -1},
				{At: 6205 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 6205 * ms,
		},
		// A level of the store had moved the end of the quota by the latency.
		"a take of the fallback is settled after the store has answered": {
			Gateways: []Gateway{{Latency: 200 * time.Microsecond}},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{{Capacity: 500, Kind: rules.Quota, Period: "hour"}}}}},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 2, Span: time.Second, Cost: 1, Tokens: 1, Actual: 1, SettleAt: -1},
				{Kind: OpFault, Span: 200 * ms, SettleAt: -1, Fault: "not-sent"},
				{Kind: OpCheck, Caller: "a", N: 1, Cost: 5, Tokens: 1, Lasts: 2 * time.Second, Actual: 1, SettleAt: -1},
				{At: time.Second, Kind: OpFault, Span: time.Second, SettleAt: -1, Fault: "not-sent"},
				{At: time.Second, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: 1, SettleAt: -1},
				{At: 5 * time.Second, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 5 * time.Second,
		},
		// What has refilled until the store settles a request does not come back.
		"requests that are settled after an outage": {
			Gateways: []Gateway{{Latency: 200 * time.Microsecond}},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{{Label: "burst", Capacity: 100, RefillTokens: 10, Refill: time.Minute}}}}},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 3, Cost: 1, Tokens: 1, Lasts: time.Second, SettleAt: -1},
				{At: 100 * ms, Kind: OpFault, Span: 5 * time.Second, SettleAt: -1, Fault: "not-sent"},
				{At: 8100 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 8100 * ms,
		},
		// The lower limit cuts the debt, and the server with the higher one admits once more.
		"an overdraft while two limits are in use": {
			Gateways: []Gateway{{Latency: 200 * time.Microsecond, SeesRules: 3 * time.Second}, {Latency: 200 * time.Microsecond}},
			Versions: [][]rules.Rule{overdraft(100), overdraft(10)},
			Ops: []Op{
				{Kind: OpRules, SettleAt: -1, Version: 1},
				{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: -1, SettleAt: -1},
				{At: 100 * ms, Kind: OpCheck, Gateway: All, Caller: "a", N: 4, Cost: 50, Tokens: 1, Actual: -1, SettleAt: -1},
				{At: 3100 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 3100 * ms,
		},
		// A period that begins with a charge pays at most the capacity of the take.
		"a take of a higher limit is charged in the next period": {
			Begins:   time.Hour - 1269*ms,
			Gateways: []Gateway{{Latency: 200 * time.Microsecond}},
			Versions: [][]rules.Rule{owing(10), owing(2)},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Lasts: 2 * time.Second, Actual: 2, SettleAt: -1},
				{Kind: OpRules, SettleAt: -1, Version: 1},
				{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: 50, SettleAt: -1},
				{At: 13 * ms, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, SettleAt: -1},
				{At: 5 * time.Second, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 5 * time.Second,
		},
		// What is given back fills the quota: no period is current that the other would wait for.
		"a full quota has another period": {
			Seed:     400013333,
			Gateways: []Gateway{{Latency: 200 * time.Microsecond}},
			Versions: [][]rules.Rule{
				{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{{Capacity: 10, Kind: rules.Quota, Period: "minute"}}}},
				{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{{Capacity: 10, Kind: rules.Quota, Period: "second"}}}},
			},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, SettleAt: -1},
				{Kind: OpRules, SettleAt: -1, Version: 1},
				{At: 100 * ms, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: 1, SettleAt: -1},
				{At: 3100 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 3100 * ms,
		},
		// The first window was kept while the band was a quota, and has room for a charge that the last has not.
		"a window was another one before it was a quota": {
			Seed:     90932065377835,
			Gateways: []Gateway{{Latency: 200 * time.Microsecond}},
			Versions: [][]rules.Rule{
				plan(rules.Band{Capacity: 3, Refill: 1600 * ms, Kind: rules.SlidingWindow}),
				plan(rules.Band{Capacity: 30, Kind: rules.Quota, Period: "hour"}),
				plan(rules.Band{Capacity: 1, Refill: 160 * ms, Kind: rules.SlidingWindow}),
			},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: -1, SettleAt: -1},
				{Kind: OpRules, SettleAt: -1, Version: 1},
				{At: 100 * ms, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: 1, SettleAt: -1},
				{At: 100 * ms, Kind: OpRules, SettleAt: -1, Version: 2},
				{At: 573 * ms, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: 1, ActualTokens: 5, SettleAt: -1},
				{At: 3573 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 3573 * ms,
		},
		// Only the call before the charge is answered.
		"a level whose take and charge have lost their answers": {
			Seed:     100006987,
			Gateways: []Gateway{{Latency: 6 * ms}},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Cost: rules.MeasureTokens, Bands: []rules.Band{
				{Capacity: 50, Kind: rules.Quota, Period: "hour", WarnAt: rules.Percents{50, 100}},
			}}}},
			Ops: []Op{
				{At: 781 * ms, Kind: OpFault, Span: 5 * time.Second, SettleAt: -1, Fault: "lossy"},
				{At: 881 * ms, Kind: OpFault, Span: 2 * time.Second, SettleAt: -1, Fault: "lost-answers"},
				{At: 881 * ms, Kind: OpStart, SettleAt: -1},
				{At: 881 * ms, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 50, Actual: -1, SettleAt: -1},
				{At: 8781 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 8781 * ms,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if violations := Check(h, Run(t, h)); len(violations) > 0 {
				t.Error(violations)
			}
		})
	}
}
