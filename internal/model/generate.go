package model

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// generator makes one history.
type generator struct {
	*rand.Rand
	h       *History
	style   style
	paths   bool          // some rules are for one path alone
	lasts   time.Duration // the time in which operations begin
	callers []string
	// counting draws the rules that count refused hits. It has numbers of its own, so that the
	// histories of other seeds stay as they were.
	counting *rand.Rand
	// ending draws the rules that end, in the same way.
	ending *rand.Rand
	// overriding draws the overrides, in the same way.
	overriding *generator
	// warning draws the thresholds of warnings, in the same way.
	warning *generator
	// enlarging draws large numbers and fleets, identifying API keys, timing clocks and
	// calendars, exceeding extreme costs, and together what is decided as one, in the same way.
	enlarging, identifying, timing, exceeding, together *generator
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
	own := func(stream uint64) *generator {
		return &generator{Rand: rand.New(rand.NewPCG(seed, stream))} //nolint:gosec // no secret
	}
	g := own(20)
	g.h, g.counting, g.ending, g.overriding, g.warning = &History{Seed: seed}, own(21).Rand, own(22).Rand, own(23), own(24)
	g.enlarging, g.identifying, g.timing, g.exceeding, g.together = own(40), own(41), own(42), own(43), own(44)
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
	if onRedis := rand.New(rand.NewPCG(seed, 25)); onRedis.IntN(redisEvery) == 0 { //nolint:gosec // no secret
		r := &generator{Rand: onRedis, h: &History{Seed: seed, Begins: g.h.Begins}, callers: g.callers, lasts: g.lasts}
		r.redis()
		return r.h
	}
	if g.style == hot && g.chance(20) {
		g.quiet()
		return g.h
	}
	// A stream of its own, so that the histories of all other seeds stay what they are.
	if own(21).IntN(50) == 0 {
		g.rollout()
		return g.h
	}
	g.rules()
	for range 1 + g.IntN(4) {
		g.scene()
	}
	g.overrides()
	g.warnAt()
	g.finish()
	g.apiKeys()
	g.clocks()
	g.enlarge()
	g.extremes()
	g.joining()
	return g.h
}

// quiet is a fleet without faults, of which two callers want the same bucket for so long
// that what each gets can be passed.
func (g *generator) quiet() {
	for i := range g.h.Gateways {
		g.h.Gateways[i].Leases, g.h.Gateways[i].Waits = true, false
	}
	rate := one[int64](g, 100, 200, 400)
	shared := rules.Rule{ID: "r1", Bands: []rules.Band{{Capacity: rate * one[int64](g, 1, 2), RefillTokens: rate, Refill: time.Second}}}
	own := rules.Rule{ID: "r2", Scope: rules.ScopeUser, Paths: []string{path}, Bands: []rules.Band{rules.PerSecond(one[int64](g, 1, 50, 400))}}
	own.Consistency = one(g, "", rules.ConsistencyStrict)
	g.h.Versions = [][]rules.Rule{{shared, own}}
	steady := func(caller, path string, gateway int, perSecond, cost int64) {
		span := one(g, 4*time.Second, 8*time.Second)
		g.add(Op{
			Kind: OpCheck, At: g.upTo(20 * time.Millisecond), Gateway: gateway, Caller: caller, Path: path, N: int(perSecond * int64(span/time.Second)), Span: span,
			Cost: cost, Tokens: 1, Actual: Never, SettleAt: All,
		})
	}
	if g.chance(40) { // a caller is over its own limit, which is that of all requests, and what is shared a part
		shared.Paths, own.Paths = own.Paths, nil
		own.Bands[0], shared.Bands[0] = rules.PerSecond(400), rules.PerSecond(one[int64](g, 100, 100, 200))
		g.h.Versions = [][]rules.Rule{{shared, own}}
		gateway := g.IntN(len(g.h.Gateways))
		steady("a", "", gateway, one[int64](g, 500, 1_000, 2_000), 1)
		steady("a", path, gateway, one[int64](g, 100, 500), 1)
		// No rate divides another one: tokens would come back in step with the requests of one
		// gateway, and the other would never take one that this one waits for.
		rate := shared.Bands[0].Capacity
		steady("b", path, gateway, one(g, rate/2, rate*9/10), 1)
		steady("b", path, g.IntN(len(g.h.Gateways)), rate*7/10, 1)
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
	h.Ends += 3*time.Second + 4*h.Redis.Timeout
	if h.Redis.Nodes > 0 { // what is on its way arrives
		h.Ends += 20 * h.Gateways[0].Latency
	}
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
