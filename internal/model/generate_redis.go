package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// redisEvery is how often a history has store/redisstore, on simulated servers: one of so many.
const redisEvery = 8

// redis is a history with servers of Redis.
func (g *generator) redis() {
	h := g.h
	h.Begins = 10*time.Hour + g.upTo(time.Hour)/60 // no day ends in it
	h.Redis = Redis{Nodes: 1, Shards: one(g, 4, 16), Timeout: 100 * time.Millisecond}
	latency := one(g, 500*time.Microsecond, time.Millisecond, 5*time.Millisecond)
	if g.chance(50) {
		h.Redis.Nodes, h.Redis.Cluster = one(g, 2, 3), true
	}
	if g.chance(20) { // far away: a decision takes a round trip, or two where it is split
		latency = one(g, 50*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond)
		h.Redis.Timeout = max(time.Second, 5*latency)
		if h.Redis.Cluster {
			h.Redis.Timeout = max(time.Second, 12*latency) // also while more connections are opened
		}
	}
	for range one(g, 1, 2, 2, 3) {
		h.Gateways = append(h.Gateways, Gateway{Latency: latency})
	}
	g.lasts = min(g.lasts, 10*time.Second)
	h.Versions = [][]rules.Rule{g.redisRules()}
	for range 1 + g.IntN(3) {
		at := 2*time.Second + g.upTo(g.lasts)
		moves := g.moves // twice as often
		one(g, g.endsInStall, g.redisOutage, g.moves, moves, g.leavers, g.redisSettles)(at)
	}
	g.redisRequests(2*time.Second, g.lasts)
	slices.SortStableFunc(h.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	h.rest()
}

// redisRules are rules whose tokens and slots stay what they are until the history ends.
func (g *generator) redisRules() []rules.Rule {
	held := func() rules.Band {
		return rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: one[int64](g, 2, 20, 500), Hold: one(g, time.Minute, time.Hour)}
	}
	counted := func() rules.Band {
		if g.chance(30) {
			return rules.Band{Label: "hour", Capacity: one[int64](g, 50, 5_000), Refill: time.Hour}
		}
		return rules.Band{Label: "day", Kind: rules.Quota, Capacity: one[int64](g, 50, 5_000), Period: "day"}
	}
	var list []rules.Rule
	for i := range one(g, 1, 2, 2, 3) {
		r := rules.Rule{ID: "r" + string(rune('1'+i)), Scope: one(g, rules.ScopeUser, rules.ScopeGlobal)}
		switch g.IntN(4) {
		case 0:
			r.Bands = []rules.Band{held()}
		case 1:
			r.Bands = []rules.Band{counted()}
		default:
			r.Bands = []rules.Band{counted(), held()}
		}
		if g.chance(20) {
			r.Mode = rules.ModeShadow
		}
		list = append(list, r)
	}
	return list
}

// redisRequests are requests that are under way for a while, and settled.
func (g *generator) redisRequests(from, span time.Duration) {
	cost := one[int64](g, 1, 1, 1, 5)
	op := Op{
		Kind: OpCheck, At: from + g.upTo(span/2), Gateway: g.gateway(), Caller: g.caller(), N: one(g, 1, 5, 20, 60), Cost: cost, Tokens: 1,
		Span: g.upTo(max(span/2, time.Millisecond)), Actual: one(g, cost, cost, 0, 1, 2*cost), ActualTokens: 1, SettleAt: All,
		Lasts: one(g, 0, time.Millisecond, 20*time.Millisecond, 300*time.Millisecond), Renew: g.chance(10),
	}
	if g.chance(10) {
		op.Leaves = one(g, time.Millisecond, 5*time.Millisecond, 50*time.Millisecond)
	}
	if g.chance(10) {
		op.SettleAt = g.IntN(len(g.h.Gateways))
	}
	g.add(op)
}

// endsInStall is many requests that end while the servers run nothing.
func (g *generator) endsInStall(at time.Duration) {
	timeout := g.h.Redis.Timeout
	lasts := one(g, timeout, 3*timeout)
	g.add(Op{Kind: OpCheck, At: at, Gateway: g.gateway(), Caller: g.caller(), N: one(g, 20, 100, 200), Span: one(g, 0, timeout/5, timeout), Cost: 1, Tokens: 1, Lasts: lasts, Actual: one[int64](g, 0, 1), SettleAt: All})
	g.add(Op{Kind: OpFault, At: at + lasts - g.upTo(timeout), Gateway: All, Fault: StoreStall, Span: one(g, timeout/2, timeout*3/2, timeout*5/2, 10*timeout)})
	g.redisRequests(at, lasts)
}

// redisOutage is a fault of the network, with requests around it.
func (g *generator) redisOutage(at time.Duration) {
	span := one(g, 300*time.Millisecond, time.Second, 3*time.Second)
	g.add(Op{Kind: OpFault, At: at, Gateway: one(g, All, g.IntN(len(g.h.Gateways))), Fault: one(g, append(slices.Clone(Faults), StoreStall)...), Span: span})
	g.redisRequests(max(2*time.Second, at-time.Second), time.Second)
	for range 1 + g.IntN(3) {
		g.redisRequests(at, span)
		g.redisRequests(at+span, 5*time.Second)
	}
	if g.chance(50) { // long after it
		g.redisRequests(at+span+recovery+2*g.h.Redis.Timeout+4*g.h.Gateways[0].Latency, 3*time.Second)
	}
}

// moves is a slot of the cluster that moves while requests are under way.
func (g *generator) moves(at time.Duration) {
	span := one(g, 100*time.Millisecond, time.Second, 3*time.Second)
	for range one(g, 1, 2, 4) {
		g.add(Op{Kind: OpMove, At: at + g.upTo(100*time.Millisecond), Gateway: All, N: g.IntN(16), Span: span})
	}
	for range 2 + g.IntN(3) {
		g.redisRequests(at, span)
	}
	g.leavers(at + g.upTo(span))
}

// leavers are callers that leave, and others that find what these have left.
func (g *generator) leavers(at time.Duration) {
	round := g.h.Gateways[0].Latency
	g.add(Op{
		Kind: OpCheck, At: at, Gateway: g.gateway(), Caller: g.caller(), N: one(g, 5, 40), Span: 4 * round, Cost: 1, Tokens: 1, Lasts: 10 * time.Millisecond,
		Actual: 1, SettleAt: All, Leaves: one(g, round/2, round, 3*round),
	})
	g.redisRequests(at, time.Second)
}

// redisSettles is requests that cost more or less than they had asked for, also far more than any limit.
func (g *generator) redisSettles(at time.Duration) {
	cost := one[int64](g, 1, 5, 20)
	op := Op{
		Kind: OpCheck, At: at, Gateway: g.gateway(), Caller: g.caller(), N: one(g, 1, 5), Span: g.upTo(500 * time.Millisecond), Cost: cost, Tokens: 1, ActualTokens: 1,
		Lasts: one(g, time.Millisecond, 300*time.Millisecond), Actual: one(g, 0, 1, cost/2, 2*cost, 20*cost, 1<<54), Again: g.chance(20), SettleAt: All,
	}
	g.add(op)
	for range 3 {
		g.redisRequests(at, 600*time.Millisecond)
	}
}
