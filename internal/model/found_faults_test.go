package model

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Histories of large fleets and numbers, API keys, clocks and callers that have gone keep to the
// specification.
func TestHistories_FoundAtFleets(t *testing.T) {
	fleet := func(n int) (all []Gateway) {
		for range n {
			all = append(all, Gateway{Latency: 200 * time.Microsecond})
		}
		return all
	}
	away := Op{At: 50 * ms, Kind: OpFault, Gateway: All, Span: time.Second, SettleAt: All, Fault: NotSent}
	request := Op{At: 100 * ms, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: Never, SettleAt: All}
	last := Op{At: 5 * time.Second, Kind: OpPeek, Gateway: All, Caller: "a"}
	alone := func(servers int, band rules.Band) *History {
		return &History{
			Gateways: fleet(servers), Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{band}}}},
			Ops: []Op{away, request, last}, Ends: last.At,
		}
	}
	usd := int64(1_000_000)
	ten := []Override{{Rule: "r1", Caller: "a", Times: 10_000}}
	keyed := func(band rules.Band, ops ...Op) *History {
		return &History{
			Gateways: fleet(2), Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeAPIKey, Bands: []rules.Band{band}}}},
			Overrides: [][]Override{ten}, Ops: append(ops, last), Ends: last.At,
		}
	}
	wrong := func(ahead time.Duration, rule rules.Rule) *History {
		h := &History{Gateways: fleet(1), Versions: [][]rules.Rule{{rule}}, Ops: []Op{request, last}, Ends: last.At}
		h.Gateways[0].Ahead = ahead
		return h
	}
	month := rules.Rule{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{{Capacity: 50, Kind: rules.Quota, Period: "month", Timezone: "Europe/Berlin"}}}
	ends := rules.Rule{ID: "r1", Scope: rules.ScopeGlobal, Until: endingAt(3 * time.Second), Bands: []rules.Band{{Capacity: 30, Refill: time.Minute}}}
	elsewhere := Op{Kind: OpCheck, Gateway: 1, Caller: "a", N: 12, Cost: 1, Tokens: 1, Actual: 2}
	charged := Op{At: 100 * ms, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: 2, SettleAt: 1}
	gone := Op{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: 1, Gone: true, SettleAt: All}
	many := Op{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: Never, With: 63, Denied: true, SettleAt: All}
	for name, h := range map[string]*History{
		// Its share was the whole limit at each: the share of the rate would have had a period above the longest one of rules.
		"10,000 USD in 30 days at 3 servers": alone(3, rules.Band{Capacity: 10_000 * usd, Refill: 30 * 24 * time.Hour}),
		"10,000 USD in 30 days at 7 servers": alone(7, rules.Band{Capacity: 10_000 * usd, Refill: 30 * 24 * time.Hour}),
		// The rate was halved until it was exact, to a thousandth.
		"1,000 USD a day at 7 servers": alone(7, rules.Band{Capacity: 1_000 * usd, Refill: 24 * time.Hour}),
		// 3 of 5 tokens were left of its share: the rest was rounded off.
		"5 tokens a second at 3 servers": alone(3, rules.PerSecond(5)),
		// The gateway that settled them knew no override, and warned of 24 of 30.
		"a warning at a gateway that has never seen the API key": keyed(rules.Band{Label: "plan", Capacity: 30, Refill: 16 * time.Second, Kind: rules.SlidingWindow, WarnAt: rules.Percents{80}}, elsewhere),
		// The gateway that settled the takes of another's fallback corrected the charge by the numbers of the rule, and
		// warned of 5 of 500.
		"a warning at a gateway that settles what another has admitted": {
			Seed: 4500000250, Gateways: fleet(2), Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeAPIKey, Bands: []rules.Band{
				{Label: "plan", Capacity: 500, Kind: rules.Quota, Period: "minute", WarnAt: rules.Percents{1}},
			}}}},
			Overrides: [][]Override{{{Rule: "r1", Caller: "a", Times: 3_500}}},
			Ops: []Op{
				{Kind: OpFault, Span: time.Second, SettleAt: All, Fault: NotSent},
				{Kind: OpCheck, Caller: "a", N: 5, Cost: 1, Tokens: 1, Actual: 2, SettleAt: 1},
				{At: 4 * time.Second, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
		},
		// It was debited by the numbers of the rule.
		"a charge at a gateway that has never seen the API key": keyed(rules.Band{Capacity: 30, Refill: 16 * time.Second, Kind: rules.SlidingWindow}, away, charged),
		// The gateway has seen the API key, but before there was an override: it charged by the numbers of the
		// rule, and did not warn.
		"an override by API key that begins in an outage": {
			Gateways: fleet(1), Versions: [][]rules.Rule{
				{{ID: "r1", Scope: rules.ScopeAPIKey, Bands: []rules.Band{{Label: "plan", Capacity: 100, Kind: rules.Quota, Period: "minute"}}}},
				{{ID: "r1", Scope: rules.ScopeAPIKey, Bands: []rules.Band{{Label: "plan", Capacity: 100, Kind: rules.Quota, Period: "minute", WarnAt: rules.Percents{1}}}}},
			},
			Overrides: [][]Override{nil, {{Rule: "r1", Caller: "a", Times: 100}}},
			Ops: []Op{
				{Kind: OpFault, Span: 5 * time.Second, SettleAt: All, Fault: NotSent}, request,
				{At: time.Second, Kind: OpRules, Gateway: All, SettleAt: All, Version: 1}, {At: 9 * time.Second, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 9 * time.Second,
		},
		// The first decision was in the month of the gateway's own clock, and a rule had ended by it.
		"the clock of a gateway is of 1970":       wrong(-30*365*24*time.Hour, month),
		"the clock of a gateway is a day ahead":   wrong(24*time.Hour, ends),
		"the clock of a gateway is a month ahead": wrong(31*24*time.Hour, month),
		// Nothing was sent, and the receipt was used up.
		"a settlement whose caller has gone": {
			Gateways: fleet(1), Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{rules.PerSecond(30)}}}},
			Ops: []Op{gone, last}, Ends: last.At,
		},
		// The receipt is as before: it settles nothing, nor the second time.
		"settled twice at an impossible cost": {
			Seed: 5500000129, Gateways: []Gateway{{Latency: 200 * time.Microsecond}},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{rules.PerSecond(1_000)}}}},
			Ops:      []Op{{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Actual: 1, ActualTokens: 1 << 62, Again: true, SettleAt: All}},
		},
		// The wait of the next overdraft was taken for that of the tokens that were debited.
		"overdrafts in an outage": {
			Seed: 4600000168, Gateways: fleet(1), Versions: [][]rules.Rule{{
				{ID: "r2", Scope: rules.ScopeGlobal, Cost: "tokens", Overdraft: true, Bands: []rules.Band{{Label: "burst", Capacity: 3, Refill: 5 * time.Second}}},
			}},
			Ops: []Op{
				{Kind: OpFault, Span: 200 * ms, SettleAt: All, Fault: Refused},
				{Kind: OpCheck, Caller: "a", N: 2, Span: time.Second, Cost: 1, Tokens: 50, Actual: Never, SettleAt: All},
				{At: 4 * time.Second, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
		},
		// The demand that lets the store reject the others was the 65th.
		"64 debited demands together with a request that is denied": {
			Gateways: fleet(1), Versions: [][]rules.Rule{{
				{ID: "deny", Action: rules.ActionDeny, Paths: []string{pathDenied}},
				{ID: "r1", Scope: rules.ScopeUser, CountRefused: true, Bands: []rules.Band{{Capacity: 10, Kind: rules.Quota, Period: "hour"}}},
			}},
			Ops: []Op{many, last}, Ends: last.At,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if violations := Check(h, Run(t, h)); len(violations) > 0 {
				t.Error(violations)
			}
		})
	}
}
