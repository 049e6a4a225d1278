package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// scene adds operations that have to do with each other.
func (g *generator) scene() {
	at := g.upTo(g.lasts)
	gateway := g.gateway()
	scenes := []func(time.Duration, int){g.outage, g.outage, g.outage, g.change, g.change, g.resets, g.settles, g.settles, g.crowd, g.restart, g.comings, g.stall, g.coldStart}
	switch g.style {
	case hot:
		scenes = append(scenes, slices.Repeat([]func(time.Duration, int){g.crowd, g.hotCaller}, 2)...)
	case slots:
		scenes = append(scenes, slices.Repeat([]func(time.Duration, int){g.resets, g.change}, 2)...)
	}
	one(g, scenes...)(at, gateway)
	if g.style == slots || g.chance(15) {
		g.holds(max(0, at-g.upTo(time.Second)), gateway)
	}
}

// requests adds a burst of requests in a time.
func (g *generator) requests(from, span time.Duration, gateway int) {
	op := Op{
		Kind: OpCheck, At: from + g.upTo(span/2), Gateway: gateway, Caller: g.caller(), N: one(g, 1, 2, 5, 10, 20, 40), Cost: 1, Tokens: one[int64](g, 1, 5, 50),
		Span: g.upTo(max(span/2, time.Millisecond)), Actual: 1, SettleAt: All, Lasts: one(g, 0, time.Millisecond, 20*time.Millisecond),
	}
	if g.chance(25) {
		op.Cost = one[int64](g, 2, 5, 10, 50, 1_000)
		op.N = min(op.N, 10)
		op.Actual = op.Cost
	}
	if g.chance(30) {
		op.Actual = Never
	}
	op.ActualTokens = op.Tokens
	if g.paths && g.chance(50) {
		op.Path = path
	}
	if g.chance(10) {
		op.Leaves = one(g, 50*time.Millisecond, 500*time.Millisecond)
	}
	if g.chance(15) {
		op.Gateway = g.gateway()
	}
	g.add(op)
}

// outage is a fault, with requests around it and in it.
func (g *generator) outage(at time.Duration, gateway int) {
	if g.chance(50) {
		gateway = All
	}
	span := one(g, 300*time.Millisecond, time.Second, 2*time.Second, 5*time.Second)
	fault := one(g, Faults...)
	if g.chance(30) {
		fault = NotSent
	}
	op := Op{Kind: OpFault, At: at, Gateway: gateway, Fault: fault, Span: span}
	if fault == ShardAway {
		op.Rule = one(g, g.h.Versions[0]...).ID
	}
	g.add(op)
	if g.chance(25) { // two at once
		second := Op{Kind: OpFault, At: at + g.upTo(span), Gateway: g.gateway(), Fault: one(g, Faults[:len(Faults)-1]...), Span: one(g, 200*time.Millisecond, time.Second)}
		g.add(second)
	}
	before := min(at, time.Second)
	for range g.IntN(3) {
		g.requests(at-before, before, gateway)
	}
	for range 1 + g.IntN(4) {
		g.requests(at, span, gateway)
	}
	for range 1 + g.IntN(3) {
		g.requests(at+span, 3*time.Second, gateway)
	}
	if g.chance(30) {
		g.holds(max(0, at-500*time.Millisecond), gateway)
	}
	if g.chance(30) {
		g.settles(at-before, gateway)
	}
}

// change is a change of the rules, or some.
func (g *generator) change(at time.Duration, gateway int) {
	for range one(g, 1, 1, 1, 2, 3) {
		g.requests(max(0, at-time.Second), min(at, time.Second), gateway)
		last := g.h.Versions[len(g.h.Versions)-1]
		next := g.changed(last)
		for !valid(next) {
			next = g.changed(last)
		}
		g.h.Versions = append(g.h.Versions, next)
		version := len(g.h.Versions) - 1
		if version > 1 && g.chance(40) {
			version = g.IntN(version) // back to a former one
		}
		g.add(Op{Kind: OpRules, At: at, Version: version, Gateway: All})
		for range 1 + g.IntN(3) {
			g.requests(at, 4*time.Second, gateway)
		}
		at += g.upTo(2 * time.Second)
	}
	if g.chance(40) {
		g.settles(at-min(at, 2*time.Second), gateway)
	}
	if g.chance(40) {
		g.holds(at-min(at, 500*time.Millisecond), gateway)
	}
}

// resets is a reset between requests.
func (g *generator) resets(at time.Duration, gateway int) {
	g.requests(at-min(at, time.Second), min(at, time.Second), gateway)
	op := Op{Kind: OpReset, At: at, Gateway: g.gateway(), Rule: one(g, g.h.Versions[0]...).ID}
	switch g.IntN(3) {
	case 0:
		op.Caller = g.caller()
	case 1:
		op.Rule = ""
	}
	g.add(op)
	for range 1 + g.IntN(3) {
		g.requests(at, 2*time.Second, gateway)
	}
	if g.chance(50) {
		g.holds(at-min(at, time.Second), gateway)
	}
}

// holds is requests that are under way for long.
func (g *generator) holds(at time.Duration, gateway int) {
	g.add(Op{
		Kind: OpCheck, At: at, Gateway: gateway, Caller: g.caller(), N: 1 + g.IntN(4), Span: g.upTo(100 * time.Millisecond), Cost: 1, Tokens: 1, ActualTokens: 1,
		Lasts: one(g, 200*time.Millisecond, time.Second, 4*time.Second), Actual: one[int64](g, 1, 1, 0, Never), Renew: g.chance(60), SettleAt: All,
	})
}

// settles is requests whose cost is known afterwards.
func (g *generator) settles(at time.Duration, gateway int) {
	cost := one[int64](g, 1, 5, 20, 60)
	op := Op{
		Kind: OpCheck, At: at, Gateway: gateway, Caller: g.caller(), N: one(g, 1, 2, 5), Span: g.upTo(500 * time.Millisecond), Cost: cost, Tokens: one[int64](g, 1, 30, 200),
		Lasts: one(g, time.Millisecond, 300*time.Millisecond, 2*time.Second), Again: g.chance(20), SettleAt: All,
	}
	op.Actual = one(g, 0, 1, cost, cost/2, 2*cost, 20*cost)
	op.ActualTokens = one(g, 0, 1, op.Tokens/2, 2*op.Tokens, 10*op.Tokens)
	if g.chance(25) {
		op.SettleAt = g.IntN(len(g.h.Gateways))
	}
	g.add(op)
	g.requests(at, 2*time.Second, gateway)
}

// crowd is many requests of one caller, and some of the others.
func (g *generator) crowd(at time.Duration, gateway int) {
	span := one(g, 300*time.Millisecond, time.Second)
	g.add(Op{
		Kind: OpCheck, At: at, Gateway: gateway, Caller: g.caller(), N: one(g, 100, 200, 300), Span: span, Cost: one[int64](g, 1, 1, 1, 3, 30), Tokens: 1, Actual: Never, ActualTokens: 1,
		SettleAt: All,
	})
	for range 1 + g.IntN(3) {
		g.requests(at, 2*span, gateway)
	}
}

// hotCaller is a caller above its own limit, while others want what all share.
func (g *generator) hotCaller(at time.Duration, gateway int) {
	if gateway == All {
		gateway = 0
	}
	steady := func(caller, path string, gateway, rate int) {
		span := one(g, 500*time.Millisecond, time.Second, 2*time.Second)
		g.add(Op{Kind: OpCheck, At: at + g.upTo(20*time.Millisecond), Gateway: gateway, Caller: caller, Path: path, N: rate * int(span/time.Millisecond) / 1_000, Span: span, Cost: 1, Tokens: 1, Actual: Never, SettleAt: All})
	}
	own, shared := one(g, "", "", path), one(g, "", path, path)
	steady("a", own, gateway, one(g, 500, 1_000, 2_000))
	if g.chance(70) {
		steady("a", shared, gateway, one(g, 100, 300, 500))
	}
	steady("b", shared, gateway, one(g, 50, 100))
	steady("b", shared, g.IntN(len(g.h.Gateways)), one(g, 20, 50))
}

// coldStart is a fleet that starts while the store is away.
func (g *generator) coldStart(time.Duration, int) {
	g.add(Op{Kind: OpFault, Gateway: All, Fault: one(g, NotSent, LostCalls), Span: one(g, time.Second, 3*time.Second)})
	for i := range g.h.Gateways {
		g.h.Gateways[i].Waits = true
		g.add(Op{Kind: OpStart, At: time.Millisecond + g.upTo(300*time.Millisecond), Gateway: i})
	}
	for range 1 + g.IntN(3) {
		g.requests(300*time.Millisecond, time.Second, All)
	}
}

// restart loses what the store has, or moves its clock.
func (g *generator) restart(at time.Duration, gateway int) {
	g.requests(at-min(at, time.Second), min(at, time.Second), gateway)
	op := Op{Kind: OpRestart, At: at, Gateway: All}
	if g.chance(50) {
		op.Kind, op.Step = OpStep, one(g, -5*time.Second, -300*time.Millisecond, 300*time.Millisecond, 5*time.Second, time.Minute)
	}
	g.add(op)
	if g.chance(50) {
		g.outage(at-min(at, 200*time.Millisecond), All)
	}
	g.requests(at, 2*time.Second, gateway)
}

// comings is gateways that start and end.
func (g *generator) comings(at time.Duration, gateway int) {
	who := g.IntN(len(g.h.Gateways))
	g.requests(at-min(at, time.Second), min(at, time.Second), gateway)
	g.add(Op{Kind: one(g, OpStop, OpKill, OpKill), At: at, Gateway: who})
	if g.chance(70) {
		g.add(Op{Kind: OpStart, At: at + time.Millisecond + g.upTo(2*time.Second), Gateway: who})
	}
	if g.chance(40) {
		g.outage(at, All)
	}
	g.requests(at, 3*time.Second, gateway)
}

// stall is a gateway that does nothing for a while.
func (g *generator) stall(at time.Duration, gateway int) {
	g.add(Op{Kind: OpStall, At: at, Gateway: g.IntN(len(g.h.Gateways)), Span: one(g, 50*time.Millisecond, 200*time.Millisecond, time.Second, 3*time.Second)})
	g.requests(at-min(at, 300*time.Millisecond), 600*time.Millisecond, gateway)
	g.requests(at, time.Second, gateway)
	g.holds(at-min(at, 300*time.Millisecond), gateway)
}

// rollout is a change between a small limit that refills fast and a large one that refills
// slowly, which one gateway sees late, while a caller wants all that either hands out.
func (g *generator) rollout() {
	band := rules.Band{Label: "burst", Capacity: one[int64](g, 3, 10, 30), Refill: one(g, 200*time.Millisecond, time.Second)}
	small := rules.Rule{ID: "r1", Scope: rules.ScopeUser, Consistency: one(g, "", rules.ConsistencyStrict), Bands: []rules.Band{band}}
	large := small
	large.Bands = []rules.Band{{Label: "burst", Capacity: one[int64](g, 100, 500), Refill: one(g, time.Minute, time.Hour)}}
	g.h.Versions = [][]rules.Rule{{small}, {large}}
	costs := []int64{1, large.Bands[0].Capacity / 20}
	if g.chance(50) {
		slices.Reverse(g.h.Versions)
		slices.Reverse(costs)
	}
	g.h.Gateways = []Gateway{{Latency: time.Millisecond, SeesRules: 3 * time.Second}, {Latency: time.Millisecond}}
	g.add(Op{Kind: OpRules, Version: 1, Gateway: All})
	for i, cost := range costs {
		g.add(Op{
			Kind: OpCheck, At: g.upTo(300 * time.Millisecond), Gateway: i, Caller: "a", N: one(g, 100, 200), Span: 3 * time.Second,
			Cost: cost, Tokens: 1, Actual: one(g, Never, cost, cost/2), ActualTokens: 1, Lasts: g.upTo(100 * time.Millisecond), SettleAt: All,
		})
	}
	slices.SortStableFunc(g.h.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	g.h.rest()
}
