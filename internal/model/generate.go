package model

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate"
)

// generator makes one history.
type generator struct {
	*rand.Rand
	h       *History
	style   style
	paths   bool          // some rules are for one path alone
	lasts   time.Duration // the time in which operations begin
	callers []string
}

// resetsSeen is within which time a connected gateway sees a reset by another one, which
// is announced.
const resetsSeen = 250 * time.Millisecond

// style is what the rules of a history are about, so that what belongs together meets.
type style int

const (
	anything style = iota
	hot            // rates at which gateways take slices
	slots          // requests that are under way
	plans          // a short burst and a long plan
)

// path is that of a rule for one path alone.
const path = "/x"

// Generate makes the history of a seed. Its operations come in scenes, so that what they
// do meets: a fault has requests before it, in it and after it.
func Generate(seed uint64) *History {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 20)), h: &History{Seed: seed}} //nolint:gosec // no secret
	g.lasts = time.Duration(2+g.IntN(10)) * time.Second
	if g.IntN(8) == 0 {
		g.lasts *= 4
	}
	// Not far before a minute or an hour ends, or anywhere.
	g.h.Begins = time.Hour - time.Duration(g.IntN(int(g.lasts/time.Millisecond)))*time.Millisecond
	if g.IntN(2) == 0 {
		g.h.Begins = time.Duration(g.IntN(3_600_000)) * time.Millisecond
	}
	g.style, g.paths = one(g, anything, anything, anything, hot, slots, plans), g.chance(40)
	g.callers = []string{"a", "b", "c"}[:1+g.IntN(3)]
	g.fleet()
	if g.style == hot && g.chance(20) {
		g.quiet()
		return g.h
	}
	g.rules()
	for range 1 + g.IntN(4) {
		g.scene()
	}
	g.finish()
	return g.h
}

// quiet is a fleet without faults, of which two callers want the same bucket for so long
// that what each gets can be passed.
func (g *generator) quiet() {
	for i := range g.h.Gateways {
		g.h.Gateways[i].Leases, g.h.Gateways[i].Waits = true, false
	}
	rate := one[int64](g, 100, 200, 400)
	shared := fluxgate.Rule{ID: "r1", Bands: []fluxgate.Band{{Capacity: rate * one[int64](g, 1, 2), RefillTokens: rate, Refill: time.Second}}}
	own := fluxgate.Rule{ID: "r2", Scope: fluxgate.ScopeUser, Paths: []string{path}, Bands: []fluxgate.Band{fluxgate.PerSecond(one[int64](g, 1, 50, 400))}}
	own.Consistency = one(g, "", fluxgate.ConsistencyStrict)
	g.h.Versions = [][]fluxgate.Rule{{shared, own}}
	steady := func(caller, path string, gateway int, perSecond, cost int64) {
		span := one(g, 4*time.Second, 8*time.Second)
		g.add(Op{
			Kind: OpCheck, At: g.upTo(20 * time.Millisecond), Gateway: gateway, Caller: caller, Path: path, N: int(perSecond * int64(span/time.Second)), Span: span,
			Cost: cost, Tokens: 1, Actual: Never, SettleAt: All,
		})
	}
	if g.chance(40) { // a caller is over its own limit, which is that of all requests, and what is shared a part
		shared.Paths, own.Paths = own.Paths, nil
		own.Bands[0], shared.Bands[0] = fluxgate.PerSecond(400), fluxgate.PerSecond(one[int64](g, 100, 100, 200))
		g.h.Versions = [][]fluxgate.Rule{{shared, own}}
		gateway := g.IntN(len(g.h.Gateways))
		steady("a", "", gateway, one[int64](g, 500, 1_000, 2_000), 1)
		steady("a", path, gateway, one[int64](g, 100, 500), 1)
		steady("b", path, gateway, one[int64](g, 50, 100), 1)
		steady("b", path, g.IntN(len(g.h.Gateways)), 50, 1)
	} else {
		steady("a", one(g, "", path), g.gateway(), one[int64](g, 150, 500), one[int64](g, 1, 30, 60, 90))
		if g.chance(50) {
			steady("a", one(g, "", path), g.gateway(), one[int64](g, 100, 500), 1)
		}
		steady("b", one(g, "", path), g.gateway(), one[int64](g, 50, 100), 1)
	}
	slices.SortStableFunc(g.h.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	g.h.rest()
}

// one is one of some values.
func one[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// chance is true in so many of a hundred cases.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// upTo is a time of whole milliseconds.
func (g *generator) upTo(d time.Duration) time.Duration {
	return time.Duration(g.Int64N(max(1, int64(d/time.Millisecond)))) * time.Millisecond
}

func (g *generator) fleet() {
	leases, waits := g.style == hot || g.chance(40), one(g, 0, 0, time.Second, 3*time.Second)
	for i := range one(g, 1, 2, 2, 2, 3, 4) {
		g.h.Gateways = append(g.h.Gateways, Gateway{
			Leases: leases != g.chance(5), MaxWait: waits, Latency: one(g, 200*time.Microsecond, time.Millisecond, 6*time.Millisecond),
			SeesResets: one(g, 0, resetsSeen/40, resetsSeen/2, resetsSeen), SeesRules: one(g, 0, 10*time.Millisecond, 300*time.Millisecond, 3*time.Second),
			SeesFleet: one(g, 0, time.Second, 2*time.Second), Waits: i > 0 && g.chance(15),
		})
	}
}

// gateway is the gateway of an operation.
func (g *generator) gateway() int {
	if g.chance(40) {
		return All
	}
	return g.IntN(len(g.h.Gateways))
}

func (g *generator) caller() string { return one(g, g.callers...) }

func (g *generator) add(op Op) { g.h.Ops = append(g.h.Ops, op) }

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

// finish starts gateways that wait, orders the operations, and looks at all buckets when
// everything has ended.
func (g *generator) finish() {
	h := g.h
	for i := range h.Gateways {
		if h.Gateways[i].Waits && !slices.ContainsFunc(h.Ops, func(op Op) bool { return op.Kind == OpStart && op.Gateway == i }) {
			g.add(Op{Kind: OpStart, At: g.upTo(g.lasts), Gateway: i})
		}
	}
	g.requests(0, g.lasts, All)
	if g.chance(50) {
		g.add(Op{Kind: OpPeek, At: g.upTo(g.lasts), Gateway: g.gateway(), Caller: g.caller()})
	}
	slices.SortStableFunc(h.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	h.rest()
}

// core are the operations without the last looks.
func (h *History) core() []Op {
	return slices.DeleteFunc(slices.Clone(h.Ops), func(op Op) bool { return op.Kind == OpPeek && op.At >= h.Ends && h.Ends > 0 })
}

// rest sets when the history ends: after its operations, the charges of the gateways, and
// a look at what is left.
func (h *History) rest() {
	h.Ops, h.Ends = h.core(), 0
	callers := map[string]bool{}
	for i := range h.Ops {
		op := &h.Ops[i]
		h.Ends = max(h.Ends, op.At+op.Span+op.Lasts)
		if op.Caller != "" {
			callers[op.Caller] = true
		}
	}
	h.Ends += 3 * time.Second
	for _, caller := range slices.Sorted(keys(callers)) {
		h.Ops = append(h.Ops, Op{Kind: OpPeek, At: h.Ends, Gateway: All, Caller: caller})
	}
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// rules makes the first version of the rules.
func (g *generator) rules() {
	var rules []fluxgate.Rule
	if g.style == hot && g.chance(50) { // a limit of each caller, and one that all share
		g.h.Versions = [][]fluxgate.Rule{{
			{ID: "r1", Scope: fluxgate.ScopeUser, Bands: []fluxgate.Band{fluxgate.PerSecond(one[int64](g, 200, 400, 1_000))}},
			{ID: "r2", Scope: fluxgate.ScopeGlobal, Bands: []fluxgate.Band{fluxgate.PerSecond(one[int64](g, 100, 200, 500))}},
		}}
		if g.paths {
			g.h.Versions[0][1].Paths = []string{path}
		}
		return
	}
	for i := range one(g, 1, 1, 2, 2, 3) {
		r := g.rule("r" + strconv.Itoa(i+1))
		for !valid([]fluxgate.Rule{r}) {
			r = g.rule(r.ID)
		}
		rules = append(rules, r)
	}
	g.h.Versions = [][]fluxgate.Rule{rules}
}

func valid(rules []fluxgate.Rule) bool {
	_, err := fluxgate.NewRuleSet(RuleSetID, rules...)
	return err == nil
}

func (g *generator) rule(id string) fluxgate.Rule {
	r := fluxgate.Rule{ID: id, Scope: one(g, fluxgate.ScopeGlobal, fluxgate.ScopeUser, fluxgate.ScopeUser, fluxgate.ScopeIP)}
	r.Consistency = one(g, "", "", fluxgate.ConsistencyAuto, fluxgate.ConsistencyLeased, fluxgate.ConsistencyStrict)
	if g.chance(25) {
		r.OnFailure = one(g, fluxgate.FailOpen, fluxgate.FailClosed)
	}
	if g.chance(10) {
		r.Mode = fluxgate.ModeShadow
	}
	if g.chance(30) {
		r.OnLimitExceed = fluxgate.WaitForRefill
	}
	if g.chance(20) {
		r.Cost = fluxgate.MeasureTokens
	}
	if g.paths && g.chance(50) {
		r.Paths = []string{path}
	}
	labels := []string{"burst", "plan", "third", "fourth"}
	for i, b := range g.bands() {
		if g.chance(70) {
			b.Label = labels[i]
		}
		r.Bands = append(r.Bands, b)
	}
	if g.chance(10) {
		r.Overdraft = !slices.ContainsFunc(r.Bands, func(b fluxgate.Band) bool { return b.Kind == fluxgate.Concurrency })
	}
	return r
}

// bands makes the bands of a rule.
func (g *generator) bands() (bands []fluxgate.Band) {
	switch g.style {
	case hot:
		if g.chance(80) {
			return []fluxgate.Band{{Capacity: one[int64](g, 100, 200, 400, 1_000), Refill: time.Second}}
		}
	case slots:
		bands = append(bands, g.slots())
	case plans:
		bands = append(bands, fluxgate.Band{Capacity: one[int64](g, 2, 5, 20), Refill: one(g, 200*time.Millisecond, time.Second)})
		switch g.IntN(3) {
		case 0:
			bands = append(bands, fluxgate.Band{Capacity: one[int64](g, 100, 500), Refill: time.Hour})
		case 1:
			bands = append(bands, fluxgate.Band{Kind: fluxgate.Quota, Capacity: one[int64](g, 100, 500), Period: "hour"})
		case 2:
			bands = append(bands, fluxgate.Band{Kind: fluxgate.SlidingWindow, Capacity: one[int64](g, 100, 500), Refill: 16 * time.Second})
		}
		if g.chance(70) {
			return bands
		}
	}
	for range max(1, one(g, 1, 1, 2, 2, 3)-len(bands)) {
		bands = append(bands, g.band())
	}
	return bands
}

func (g *generator) slots() fluxgate.Band {
	return fluxgate.Band{Kind: fluxgate.Concurrency, Capacity: one[int64](g, 1, 2, 4, 10), Hold: one(g, 200*time.Millisecond, time.Second, 3*time.Second, 10*time.Second)}
}

// band makes a band: often one that some requests empty.
func (g *generator) band() fluxgate.Band {
	capacity := one[int64](g, 1, 3, 10, 30, 100, 500)
	switch g.IntN(7) {
	case 0, 1:
		return fluxgate.Band{Capacity: capacity, Refill: one(g, 200*time.Millisecond, time.Second, 5*time.Second)}
	case 2:
		return fluxgate.Band{Capacity: one[int64](g, 200, 400, 2_000), Refill: time.Second}
	case 3:
		return fluxgate.Band{Capacity: one[int64](g, 30, 100, 500), RefillTokens: one[int64](g, 0, 10), Refill: one(g, time.Minute, time.Hour)}
	case 4:
		return fluxgate.Band{Kind: fluxgate.Quota, Capacity: capacity, Period: one[fluxgate.Period](g, "second", "minute", "hour")}
	case 5:
		return fluxgate.Band{Kind: fluxgate.SlidingWindow, Capacity: capacity, Refill: one(g, 160*time.Millisecond, 1600*time.Millisecond, 16*time.Second)}
	}
	return g.slots()
}

// changed changes the rules in one respect.
func (g *generator) changed(former []fluxgate.Rule) []fluxgate.Rule {
	rules := slices.Clone(former)
	for i := range rules {
		rules[i].Bands = slices.Clone(rules[i].Bands)
	}
	r := &rules[g.IntN(len(rules))]
	b := &r.Bands[g.IntN(len(r.Bands))]
	if b.Kind == fluxgate.Concurrency && g.chance(50) {
		b.Hold = one(g, 100*time.Millisecond, 500*time.Millisecond, 5*time.Second)
		return rules
	}
	switch g.IntN(9) {
	case 0, 1, 2:
		b.Capacity = max(1, b.Capacity*one[int64](g, 1, 2, 5, 20, 100)/10)
		if b.Kind == fluxgate.Concurrency {
			b.Capacity = min(b.Capacity, 100)
		}
	case 3: // another kind or other numbers
		label := b.Label
		*b = g.band()
		b.Label = label
		r.Overdraft = false
	case 4:
		switch b.Kind {
		case fluxgate.Concurrency:
			b.Hold = one(g, 100*time.Millisecond, 500*time.Millisecond, 5*time.Second)
		case fluxgate.Quota:
			b.Period = one[fluxgate.Period](g, "second", "minute", "hour")
		default:
			b.Refill = one(g, 160*time.Millisecond, 1600*time.Millisecond, time.Minute)
		}
	case 5:
		r.Scope = one(g, fluxgate.ScopeGlobal, fluxgate.ScopeUser, fluxgate.ScopeIP)
	case 6:
		if added := g.band(); len(r.Bands) < 4 && (!r.Overdraft || added.Kind != fluxgate.Concurrency) {
			added.Label = "added" + strconv.Itoa(len(g.h.Versions))
			r.Bands = append(r.Bands, added)
		}
	case 7:
		if len(r.Bands) > 1 {
			r.Bands = r.Bands[1:]
		}
	case 8:
		fresh := g.rule(r.ID)
		fresh.Bands = r.Bands
		fresh.Overdraft = false
		*r = fresh
	}
	return rules
}
