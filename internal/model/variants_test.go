package model

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// scene is a history in which faulty variants of the system show. The system as it is
// passes it.
type scene struct {
	gateways int
	leases   bool
	wait     time.Duration
	begins   time.Duration // 10 hours by default
	versions [][]rules.Rule
	// overrides are those of each version.
	overrides [][]Override
	ops       []Op
}

func (s *scene) history() *History {
	h := &History{Seed: 1, Begins: cmp.Or(s.begins, 10*time.Hour), Versions: s.versions, Overrides: s.overrides, Ops: slices.Clone(s.ops)}
	for range s.gateways {
		h.Gateways = append(h.Gateways, Gateway{Leases: s.leases, MaxWait: s.wait, Latency: time.Millisecond})
	}
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == OpCheck {
			op.Cost, op.N, op.SettleAt = max(op.Cost, 1), max(op.N, 1), All
			op.Tokens, op.ActualTokens = 1, 1
		}
	}
	slices.SortStableFunc(h.Ops, func(a, b Op) int { return int(a.At - b.At) })
	h.rest()
	return h
}

func rulesOf(list ...rules.Rule) [][]rules.Rule { return [][]rules.Rule{list} }

func strict(id string, bands ...rules.Band) rules.Rule {
	return rules.Rule{ID: id, Scope: rules.ScopeUser, Consistency: rules.ConsistencyStrict, Bands: bands}
}

var (
	burst  = rules.Band{Label: "burst", Capacity: 10, Refill: time.Second}
	hour   = rules.Band{Label: "hour", Capacity: 100, Refill: time.Hour}
	plan   = rules.Band{Label: "plan", Kind: rules.Quota, Capacity: 40, Period: "hour"}
	warned = rules.Band{Label: "plan", Kind: rules.Quota, Capacity: 50, Period: "hour", WarnAt: rules.Percents{80}}
	two    = rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 2, Hold: time.Second}

	requests = Op{Kind: OpCheck, Caller: "a", Gateway: All, N: 60, Span: 3 * time.Second, Actual: 1}
	estimate = Op{Kind: OpCheck, Caller: "a", Gateway: All, At: 100 * time.Millisecond, Cost: 8, Actual: 2, Lasts: 10 * time.Millisecond}
)

// after is an operation at a later time.
func after(at time.Duration, op Op) Op {
	op.At += at
	return op
}

// by is an operation of another caller.
func by(caller string, op Op) Op {
	op.Caller = caller
	return op
}

func shadow(r rules.Rule) rules.Rule {
	r.Mode = rules.ModeShadow
	return r
}

func overdraft(r rules.Rule) rules.Rule {
	r.Overdraft = true
	return r
}

func counting(r rules.Rule) rules.Rule {
	r.CountRefused = true
	return r
}

func ending(r rules.Rule) rules.Rule {
	r.Until = endingAt(1500 * time.Millisecond)
	return r
}

func window(capacity int64) rules.Band {
	return rules.Band{Label: "plan", Kind: rules.SlidingWindow, Capacity: capacity, Refill: 160 * time.Millisecond}
}

func waits(r rules.Rule) rules.Rule {
	r.OnLimitExceed = rules.WaitForRefill
	return r
}

func shared(r rules.Rule) rules.Rule {
	r.Scope, r.Consistency = rules.ScopeGlobal, rules.ConsistencyLeased
	return r
}

var scenes = map[string]scene{
	"limits":     {gateways: 2, versions: rulesOf(strict("r", burst, plan)), ops: []Op{requests}},
	"two rules":  {gateways: 2, versions: rulesOf(strict("r", burst), strict("s", plan)), ops: []Op{requests}},
	"shadow":     {gateways: 1, versions: rulesOf(strict("r", hour), shadow(strict("s", burst))), ops: []Op{requests}},
	"window":     {gateways: 1, versions: rulesOf(strict("r", rules.Band{Label: "any", Kind: rules.SlidingWindow, Capacity: 10, Refill: 1600 * time.Millisecond})), ops: []Op{requests}},
	"settle":     {gateways: 2, versions: rulesOf(strict("r", hour, plan)), ops: []Op{estimate, after(200*time.Millisecond, estimate), after(time.Second, requests)}},
	"twice":      {gateways: 1, versions: rulesOf(strict("r", hour)), ops: []Op{{Kind: OpCheck, Caller: "a", Cost: 5, Actual: 1, Again: true}}},
	"impossible": {gateways: 1, versions: rulesOf(strict("r", hour)), ops: []Op{{Kind: OpCheck, Caller: "a", Actual: 1 << 60, Again: true}}},
	"overdraft":  {gateways: 1, versions: rulesOf(overdraft(strict("r", hour))), ops: []Op{{Kind: OpCheck, Caller: "a", N: 8, Span: time.Second, Cost: 30, Actual: 30}}},
	"wait": {gateways: 2, wait: 2 * time.Second, versions: rulesOf(rules.Rule{ID: "r", Consistency: rules.ConsistencyStrict, OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{burst}}),
		ops: []Op{{Kind: OpCheck, Gateway: All, Caller: "a", N: 20, Span: 100 * time.Millisecond, Actual: 1}}},
	"leases": {gateways: 2, leases: true, versions: rulesOf(shared(strict("r", rules.PerSecond(400)))),
		ops: []Op{{Kind: OpCheck, Gateway: All, Caller: "a", N: 900, Span: 1500 * time.Millisecond, Actual: Never}}},
	"refusals": {gateways: 1, leases: true, versions: rulesOf(rules.Rule{ID: "r", Bands: []rules.Band{burst}}),
		ops: []Op{{Kind: OpCheck, Caller: "a", N: 200, Span: 4 * time.Second, Actual: Never}}},
	"outage": {gateways: 2, versions: rulesOf(strict("r", hour, plan)), ops: []Op{
		requests, {Kind: OpFault, At: time.Second, Gateway: All, Fault: NotSent, Span: time.Second}, after(5*time.Second, requests)}},
	"settle after an outage": {gateways: 1, versions: rulesOf(strict("r", hour, plan)), ops: []Op{
		{Kind: OpFault, Fault: NotSent, Span: time.Second}, {Kind: OpCheck, At: 500 * time.Millisecond, Caller: "a", Cost: 8, Actual: 2, Lasts: 5 * time.Second}}},
	"hits counted in an outage": {gateways: 1, versions: rulesOf(counting(strict("r", plan))), ops: []Op{
		{Kind: OpFault, Fault: NotSent, Span: time.Second}, {Kind: OpCheck, At: 500 * time.Millisecond, Caller: "a", Cost: 8, Lasts: 5 * time.Second},
		{Kind: OpCheck, At: 600 * time.Millisecond, Caller: "a", Cost: 50, Actual: Never}}},
	"slots": {gateways: 2, versions: rulesOf(strict("r", two), strict("s", two)), ops: []Op{
		{Kind: OpCheck, Gateway: All, Caller: "a", N: 2, Span: 10 * time.Millisecond, Lasts: 4 * time.Second, Renew: true, Actual: 1}, after(100*time.Millisecond, requests), after(6*time.Second, requests)}},
	"started in an outage": {gateways: 3, versions: rulesOf(strict("r", rules.PerSecond(200))), ops: []Op{
		{Kind: OpKill}, {Kind: OpStop, At: 4019 * time.Millisecond, Gateway: 2}, {Kind: OpFault, At: 4019 * time.Millisecond, Gateway: All, Fault: NotSent, Span: 5 * time.Second},
		{Kind: OpCheck, At: 4019 * time.Millisecond, Caller: "a", Gateway: All, N: 2, Actual: 1}, {Kind: OpStart, At: 4019 * time.Millisecond, Gateway: 2}}},
	"killed while requests wait": {gateways: 1, wait: time.Second, versions: rulesOf(waits(strict("r", rules.Band{Label: "paced", Capacity: 5, Refill: 200 * time.Millisecond}, plan))), ops: []Op{
		{Kind: OpFault, Fault: LostCalls, Span: 3 * time.Second}, {Kind: OpCheck, At: time.Second, Caller: "a", Actual: 1}, {Kind: OpCheck, At: 3 * time.Second, Caller: "a", N: 22, Actual: Never},
		{Kind: OpKill, At: 3612 * time.Millisecond}, {Kind: OpStart, At: 3612 * time.Millisecond}}},
	"slots alone": {gateways: 1, versions: rulesOf(strict("r", rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 4, Hold: 200 * time.Millisecond})), ops: []Op{
		{Kind: OpFault, Fault: NotSent, Span: 5 * time.Second}, {Kind: OpCheck, Caller: "a", N: 75, Span: time.Second, Actual: Never}}},
	"slots and a wait": {gateways: 1, wait: 900 * time.Millisecond, versions: rulesOf(waits(strict("r", two, rules.Band{Label: "paced", Capacity: 1, Refill: 800 * time.Millisecond}))), ops: []Op{
		{Kind: OpCheck, Caller: "a", N: 2, Lasts: 3 * time.Second, Renew: true, Actual: 1}}},
	"slots and a long wait": {gateways: 1, wait: 2 * time.Second, versions: rulesOf(waits(strict("r", two, rules.Band{Label: "paced", Capacity: 1, Refill: 1500 * time.Millisecond}))), ops: []Op{
		{Kind: OpCheck, Caller: "a", N: 2, Lasts: 3 * time.Second, Renew: true, Actual: 1}}},
	"change": {gateways: 1, versions: [][]rules.Rule{{strict("r", hour, plan)}, {strict("r", rules.Band{Label: "hour", Capacity: 50, Refill: time.Hour}, plan)}},
		ops: []Op{requests, {Kind: OpRules, At: 500 * time.Millisecond, Version: 1, Gateway: All}}},
	"a window again": {gateways: 1, versions: [][]rules.Rule{{strict("r", window(3))}, {strict("r", plan)}, {strict("r", window(1))}}, ops: []Op{
		{Kind: OpCheck, Caller: "a", Actual: Never}, {Kind: OpRules, At: 10 * time.Millisecond, Version: 1}, {Kind: OpCheck, At: 20 * time.Millisecond, Caller: "a", Actual: Never},
		{Kind: OpRules, At: 500 * time.Millisecond, Version: 2}, {Kind: OpCheck, At: time.Second, Caller: "a", Actual: 5}}},
	"reset": {gateways: 2, versions: rulesOf(strict("r", hour)), ops: []Op{requests, {Kind: OpReset, At: time.Second, Rule: "r"}}},
	"clock": {gateways: 1, versions: rulesOf(strict("r", burst)), ops: []Op{requests, {Kind: OpStep, At: 1500 * time.Millisecond, Step: -5 * time.Second, Gateway: All}}},
	"until": {gateways: 2, versions: rulesOf(ending(strict("r", burst)), strict("s", hour)), ops: []Op{requests}},
	"override": {gateways: 2, versions: [][]rules.Rule{{strict("r", hour, plan)}, {strict("r", hour, plan)}},
		overrides: [][]Override{nil, {{Rule: "r", Caller: "a", Times: 2_000, Until: 1500 * time.Millisecond}}},
		ops:       []Op{requests, by("b", requests), {Kind: OpRules, At: 500 * time.Millisecond, Version: 1, Gateway: All}}},
	"leased override": {gateways: 2, leases: true, versions: [][]rules.Rule{{shared(strict("r", rules.PerSecond(400)))}, {shared(strict("r", rules.PerSecond(400)))}},
		overrides: [][]Override{nil, {{Rule: "r", Caller: "a", Times: 2_000}}},
		ops: []Op{{Kind: OpCheck, Gateway: All, Caller: "a", N: 900, Span: 1500 * time.Millisecond, Actual: Never},
			{Kind: OpRules, At: 500 * time.Millisecond, Version: 1, Gateway: All}}},
	"warnings": {gateways: 2, begins: 10*time.Hour - 8500*time.Millisecond, versions: [][]rules.Rule{{strict("r", warned)}, {strict("r", warned)}},
		overrides: [][]Override{nil, {{Rule: "r", Caller: "b", Times: 2_000}}},
		ops: []Op{
			{Kind: OpCheck, Caller: "a", Gateway: All, N: 39, Span: 200 * time.Millisecond, Actual: 1},
			{Kind: OpFault, At: 400 * time.Millisecond, Gateway: All, Fault: LostAnswers, Span: 50 * time.Millisecond},
			{Kind: OpCheck, At: 400 * time.Millisecond, Caller: "a", Cost: 1, Actual: Never}, // the answer to the crossing is lost
			{Kind: OpCheck, At: 8 * time.Second, Caller: "a", N: 2, Span: time.Millisecond, Actual: 1},
			{Kind: OpCheck, At: 9 * time.Second, Caller: "a", N: 40, Span: 200 * time.Millisecond, Actual: 1},     // the next hour
			{Kind: OpCheck, At: 10 * time.Second, Caller: "b", Cost: 1, Actual: 42, Lasts: 10 * time.Millisecond}, // the settlement crosses
			{Kind: OpRules, At: 15 * time.Second, Version: 1, Gateway: All},
			{Kind: OpCheck, At: 20 * time.Second, Caller: "b", N: 50, Span: 200 * time.Millisecond, Actual: 1},
		}},
	"idle": {gateways: 1, versions: rulesOf(strict("r", burst)), ops: []Op{requests, after(20*time.Second, requests)}},
}

// variant is a faulty variant of the system: what it changes in the facts of a scene, and
// the line of the specification that rejects it.
type variant struct {
	scene string
	line  Line
	broke func(facts []Fact) []Fact
}

func TestVariants_Unbroken(t *testing.T) {
	for name, s := range scenes {
		t.Run(name, func(t *testing.T) {
			h := s.history()
			facts := Run(t, h)
			for _, v := range Check(h, facts) {
				t.Error(v)
			}
			if t.Failed() {
				for i := range facts {
					t.Log(facts[i].String())
				}
			}
		})
	}
}

func TestVariants(t *testing.T) {
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			s := scenes[v.scene]
			h := s.history()
			facts := v.broke(Run(t, h))
			if facts == nil {
				t.Fatal("the scene has no place for this fault")
			}
			var lines []Line
			for _, v := range Check(h, facts) {
				lines = append(lines, v.Line)
			}
			if !slices.Contains(lines, v.line) {
				t.Errorf("line %s does not reject it, but %v", v.line, lines)
			}
		})
	}
}
