package model

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Histories with servers of Redis that once broke the specification keep to it.
func TestHistories_FoundRedis(t *testing.T) {
	for name, h := range foundOnRedis() {
		t.Run(name, func(t *testing.T) {
			if violations := Check(h, Run(t, h)); len(violations) > 0 {
				t.Error(violations)
			}
		})
	}
}

func foundOnRedis() map[string]*History {
	near := []Gateway{{Latency: 200 * time.Microsecond}}
	slots := func(capacity int64) rules.Band {
		return rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: capacity, Hold: time.Hour}
	}
	hour := rules.Band{Label: "hour", Capacity: 5_000, Refill: time.Hour}
	all := map[string]*History{
		// The bucket regains 0.4 tokens meanwhile, which is what each settlement gives back less: 2 of 15 are used in the end.
		"many settlements of a bucket that has regained tokens meanwhile": {
			Seed: 43000448, Gateways: near, Redis: Redis{Nodes: 1, Shards: 4, Timeout: 100 * ms},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{hour}}}},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 15, Cost: 1, Tokens: 1, Lasts: 300 * ms, SettleAt: All},
				{At: 3704 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 3704 * ms,
		},
		// The same with a server far away: each take of one token has regained more than half of it.
		"settlements at a server far away": {
			Seed: 268759296383630, Gateways: []Gateway{{Latency: 200 * ms}}, Redis: Redis{Nodes: 2, Cluster: true, Shards: 4, Timeout: 2400 * ms},
			Versions: [][]rules.Rule{{
				{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{hour}},
				{ID: "r3", Scope: rules.ScopeGlobal, Bands: []rules.Band{slots(20)}},
			}},
			Ops: []Op{{At: 2697 * ms, Kind: OpCheck, Caller: "a", N: 59, Cost: 1, Tokens: 1, Lasts: ms, SettleAt: All}},
		},
		// The answer that its slot had moved came too late to send it again: it may have run, for all that is known.
		"a settlement that is redirected too late": {
			Seed: 4500001945, Gateways: near, Redis: Redis{Nodes: 2, Cluster: true, Shards: 4, Timeout: 100 * ms},
			Versions: [][]rules.Rule{{{ID: "r2", Scope: rules.ScopeUser, Bands: []rules.Band{{Label: "day", Kind: rules.Quota, Capacity: 5_000, Period: "day"}}}}},
			Ops: []Op{
				{Kind: OpMove, N: 14, Span: 3 * time.Second, SettleAt: All},
				{Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Lasts: 300 * ms, SettleAt: All},
				{At: 224 * ms, Kind: OpFault, Span: 200 * ms, SettleAt: All, Fault: StoreStall},
				{At: 6404 * ms, Kind: OpPeek, Gateway: All, Caller: "a"},
			},
			Ends: 6404 * ms,
		},
		// Their calls had to wait for those that the servers did not answer. They were not sent, and not sent later.
		"requests that end while the servers stall": {
			Seed: 222, Gateways: near, Redis: Redis{Nodes: 1, Shards: 16, Timeout: 100 * ms},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{slots(500)}}}},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 40, Span: 40 * ms, Cost: 1, Tokens: 1, Lasts: 300 * ms, Actual: 1, SettleAt: All},
				{At: 269 * ms, Kind: OpFault, Gateway: All, Span: 200 * ms, Fault: StoreStall},
			},
		},
		"tokens of requests that end while the servers stall": {
			Seed: 222, Gateways: near, Redis: Redis{Nodes: 3, Cluster: true, Shards: 16, Timeout: 100 * ms},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{{Label: "day", Kind: rules.Quota, Capacity: 5_000, Period: "day"}}}}},
			Ops: []Op{
				{Kind: OpCheck, Caller: "a", N: 100, Span: 40 * ms, Cost: 1, Tokens: 1, Lasts: 300 * ms, SettleAt: All},
				{At: 269 * ms, Kind: OpFault, Gateway: All, Span: 200 * ms, Fault: StoreStall},
			},
		},
		// Of the two keys of the shadow rule one had room and was taken from, and the other one had not: there was no receipt.
		"a shadow rule without slots left": {
			Seed: 620, Gateways: near, Redis: Redis{Nodes: 3, Cluster: true, Shards: 16, Timeout: 100 * ms},
			Versions: [][]rules.Rule{{
				{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{slots(500)}},
				{ID: "r2", Scope: rules.ScopeGlobal, Mode: rules.ModeShadow, Bands: []rules.Band{hour, slots(2)}},
			}},
			Ops: []Op{{At: 2 * time.Second, Kind: OpCheck, Caller: "a", N: 17, Cost: 1, Tokens: 1, Actual: 1, Lasts: time.Second, SettleAt: All}},
		},
		"a shadow rule without tokens left": {
			Seed: 620, Gateways: near, Redis: Redis{Nodes: 3, Cluster: true, Shards: 16, Timeout: 100 * ms},
			Versions: [][]rules.Rule{{
				{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{slots(500)}},
				{ID: "r2", Scope: rules.ScopeGlobal, Mode: rules.ModeShadow, Bands: []rules.Band{{Label: "hour", Capacity: 2, Refill: time.Hour}, slots(500)}},
			}},
			Ops: []Op{{At: 2 * time.Second, Kind: OpCheck, Caller: "a", N: 17, Cost: 1, Tokens: 1, Actual: 1, Lasts: time.Second, SettleAt: All}},
		},
		// No connection was left, and none was opened in time: it was never sent, and not sent later.
		"a settlement that waits for a connection": {
			Seed: 31405, Gateways: near, Redis: Redis{Nodes: 1, Shards: 16, Timeout: 100 * ms},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{slots(500)}}}},
			Ops: []Op{
				{At: 2 * time.Second, Kind: OpCheck, Caller: "a", N: 1, Cost: 1, Tokens: 1, Lasts: 100 * ms, Actual: 1, SettleAt: All},
				{At: 2050 * ms, Kind: OpFault, Gateway: All, Fault: NotSent},
				{At: 2051 * ms, Kind: OpFault, Gateway: All, Span: 300 * ms, Fault: LateCalls},
			},
		},
		// The probes of the breaker needed several round trips and had one second.
		"an outage of a Redis far away": {
			Gateways: []Gateway{{Latency: 200 * ms}}, Redis: Redis{Nodes: 1, Shards: 16, Timeout: time.Second},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{hour}}}},
			Ops: []Op{
				{At: 5 * time.Second, Kind: OpFault, Gateway: All, Span: 3 * time.Second, Fault: LostCalls},
				{At: 4 * time.Second, Kind: OpCheck, Caller: "a", N: 20, Span: 5 * time.Second, Cost: 1, Tokens: 1, Actual: 1, SettleAt: All},
				{At: 14 * time.Second, Kind: OpCheck, Caller: "a", N: 20, Span: 5 * time.Second, Cost: 1, Tokens: 1, Actual: 1, SettleAt: All},
			},
		},
		// The server's answer to the settlement did not fit, and all requests of its call failed.
		"a settlement above all numbers": {
			Gateways: near, Redis: Redis{Nodes: 1, Shards: 16, Timeout: 100 * ms},
			Versions: [][]rules.Rule{{{ID: "r1", Scope: rules.ScopeUser, Bands: []rules.Band{slots(500)}}}},
			Ops: []Op{
				{At: 2 * time.Second, Kind: OpCheck, Caller: "a", N: 5, Cost: 1, Tokens: 1, Lasts: 100 * ms, Actual: 1 << 54, SettleAt: All},
				{At: 2100 * ms, Kind: OpCheck, Caller: "b", N: 200, Span: ms, Cost: 1, Tokens: 1, Actual: 1, SettleAt: All},
			},
		},
	}
	// What both halves of a bucket had taken was given back for one half only.
	moves := &History{
		Seed: 767, Gateways: []Gateway{{Latency: ms}, {Latency: ms}}, Redis: Redis{Nodes: 2, Cluster: true, Shards: 16, Timeout: 100 * ms},
		Versions: [][]rules.Rule{{
			{ID: "r1", Scope: rules.ScopeGlobal, Bands: []rules.Band{hour, slots(500)}},
			{ID: "r2", Scope: rules.ScopeGlobal, Bands: []rules.Band{hour}},
			{ID: "r3", Scope: rules.ScopeUser, Bands: []rules.Band{hour}},
		}},
	}
	for shard := range 16 {
		moves.Ops = append(moves.Ops, Op{At: 2 * time.Second, Kind: OpMove, Gateway: All, N: shard, Span: 3 * time.Second})
	}
	for _, leaves := range []time.Duration{0, 2 * ms, 3 * ms, 4 * ms, 6 * ms} {
		moves.Ops = append(moves.Ops, Op{
			At: 2 * time.Second, Kind: OpCheck, Gateway: All, Caller: "a", N: 200, Span: 3 * time.Second, Cost: 1, Tokens: 1, Lasts: 10 * ms, Actual: 1, SettleAt: All, Leaves: leaves,
		})
	}
	all["callers leave while a slot moves"] = moves
	for _, h := range all {
		h.Begins = 10 * time.Hour
		h.rest()
	}
	return all
}
