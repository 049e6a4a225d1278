package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Coverage counts in how many histories which kinds of bands, failures and operations met.
type Coverage struct {
	Histories, Operations, Decisions int
	// by has the histories with a feature, and pairs those with two.
	pairs map[[2]string]int
}

// The features of a history.
var (
	bandFeatures    = []string{"token bucket", "quota", "window", "slots"}
	failureFeatures = []string{
		"slow", "lost-calls", "lost-answers", "late-calls", "lossy", "refused", "not-sent", "shard-away", "two faults", "restart", "clock back", "clock forward", "kill", "stop", "stall", "start in outage",
	}
	operationFeatures = []string{
		"check", "too costly", "lease", "negative cache", "fallback", "charge", "open", "closed", "shadow", "wait", "leaves", "overdraft", "counts refused", "alternative", "tokens", "settle up", "settle down", "settle 0", "settle twice", "settle elsewhere",
		"renew", "peek", "reset caller", "reset rule", "reset set", "numbers", "kind", "hold", "scope", "band added", "band removed", "versions alternate", "ends", "override", "override ends",
	}
)

// The features of a history with servers of Redis.
var (
	redisFeatures = []string{
		"shared call", "two rounds", "redirected", "given back", "answer lost", "call lost", "late settlement",
	}
	serverFeatures = []string{"one server", "cluster", "far away"}
	strainFeatures = []string{"store-stall", "slot moves"}
)

// Add counts a history.
func (c *Coverage) Add(h *History, facts []Fact) {
	if c.pairs == nil {
		c.pairs = map[[2]string]int{}
	}
	found := map[string]bool{}
	h.bandFeatures(found)
	h.opFeatures(found)
	h.redisFeatures(facts, found)
	h.fleetFeatures(found)
	decisions := factFeatures(facts, found)
	c.Histories++
	c.Operations += len(h.Ops)
	c.Decisions += decisions
	all := slices.Collect(keys(found))
	for _, a := range all {
		for _, b := range all {
			c.pairs[[2]string{a, b}]++
		}
	}
}

func (h *History) bandFeatures(found map[string]bool) {
	names := map[rules.BandKind]string{"": "token bucket", rules.TokenBucket: "token bucket", rules.Quota: "quota", rules.SlidingWindow: "window", rules.Concurrency: "slots"}
	for i, list := range h.Versions {
		for _, r := range list {
			for _, b := range r.Bands {
				found[names[b.Kind]] = true
			}
			found["ends"] = found["ends"] || !r.Until.IsZero()
			found["overdraft"] = found["overdraft"] || r.Overdraft
			found["counts refused"] = found["counts refused"] || r.CountRefused
			found["alternative"] = found["alternative"] || r.Mode == rules.ModeAlternative
			found["shadow"] = found["shadow"] || r.Mode == rules.ModeShadow
			found["tokens"] = found["tokens"] || r.Cost != ""
		}
		for _, o := range h.overridesOf(i) {
			found["override"] = true
			found["override ends"] = found["override ends"] || o.Until > 0
		}
		if i > 0 {
			changeFeatures(h.Versions[i-1], list, found)
		}
	}
	for name, is := range found {
		if !is {
			delete(found, name)
		}
	}
}

// changeFeatures says how two versions of the rules differ.
func changeFeatures(before, after []rules.Rule, found map[string]bool) {
	for i := range min(len(before), len(after)) {
		a, b := &before[i], &after[i]
		if a.Scope != b.Scope {
			found["scope"] = true
		}
		if len(a.Bands) < len(b.Bands) {
			found["band added"] = true
		}
		if len(a.Bands) > len(b.Bands) {
			found["band removed"] = true
			continue
		}
		for k := range min(len(a.Bands), len(b.Bands)) {
			switch x, y := a.Bands[k], b.Bands[k]; {
			case x == y:
			case x.Kind != y.Kind:
				found["kind"] = true
			case x.Hold != y.Hold:
				found["hold"] = true
			default:
				found["numbers"] = true
			}
		}
	}
}

func (h *History) opFeatures(found map[string]bool) {
	version := 0
	for i := range h.Ops {
		op := &h.Ops[i]
		switch op.Kind {
		case OpCheck:
			found["renew"] = found["renew"] || op.Renew
			found["settle elsewhere"] = found["settle elsewhere"] || op.SettleAt != All && op.Actual != Never
		case OpReset:
			found[map[bool]string{true: "reset caller", false: map[bool]string{true: "reset set", false: "reset rule"}[op.Rule == ""]}[op.Caller != ""]] = true
		case OpRules:
			found["versions alternate"] = found["versions alternate"] || op.Version < version
			version = op.Version
		case OpFault:
			found[string(op.Fault)] = true
			for k := range i {
				if o := &h.Ops[k]; o.Kind == OpFault && o.At+o.Span > op.At {
					found["two faults"] = true
				}
			}
		case OpRestart:
			found["restart"] = true
		case OpMove:
			found["slot moves"] = h.Redis.Cluster
		case OpStep:
			found[map[bool]string{true: "clock back", false: "clock forward"}[op.Step < 0]] = true
		}
	}
	for name, is := range found {
		if !is {
			delete(found, name)
		}
	}
}

// factFeatures says what happened, and returns how many decisions there were.
func factFeatures(facts []Fact, found map[string]bool) (decisions int) {
	cut := 0
	for i := range facts {
		f := &facts[i]
		switch f.Kind {
		case Decided:
			decisions++
			f.decisionFeatures(found)
		case Peeked:
			found["peek"] = true
		case Settled:
			if f.Again {
				found["settle twice"] = true
			}
			switch {
			case f.Actual == 0:
				found["settle 0"] = true
			case f.Actual > f.asked(facts):
				found["settle up"] = true
			case f.Actual < f.asked(facts):
				found["settle down"] = true
			}
		case StoreTook:
			if f.Charge {
				found["charge"] = true
			}
		case Killed:
			found["kill"] = true
		case Stopped:
			found["stop"] = true
		case Stalled:
			found["stall"] = true
		case FaultBegan:
			cut++
		case FaultEnded:
			cut--
		case Started:
			if cut > 0 {
				found["start in outage"] = true
			}
		}
	}
	return decisions
}

// asked is the cost that a settled request had.
func (f *Fact) asked(facts []Fact) int64 {
	for i := range facts {
		if facts[i].Kind == Decided && facts[i].Check == f.Check {
			return facts[i].Cost
		}
	}
	return 0
}

func (f *Fact) decisionFeatures(found map[string]bool) {
	found["check"] = true
	if f.Held > 0 {
		found["wait"] = true
	}
	if f.Err != nil {
		found["leaves"] = true
	}
	if f.Reason == fluxgate.ReasonCostTooHigh {
		found["too costly"] = true
	}
	if f.Degraded && f.Reason == fluxgate.ReasonStoreFailure {
		found[map[bool]string{true: "open", false: "closed"}[f.Allowed]] = true
	}
	for i := range f.Rules {
		switch f.Rules[i].Source {
		case store.FromLease:
			found["lease"] = true
		case store.FromNegativeCache:
			found["negative cache"] = true
		case store.FromFallback:
			found["fallback"] = true
		}
	}
}

// String is a table of how often what met, and what never did.
func (c *Coverage) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d histories, %d operations, %d decisions\n", c.Histories, c.Operations, c.Decisions)
	c.table(&s, operationFeatures, append(slices.Clone(bandFeatures), failureFeatures...))
	c.table(&s, fleetOperations, append(slices.Clone(bandFeatures), failureFeatures...))
	c.table(&s, failureFeatures, bandFeatures)
	c.table(&s, redisFeatures, slices.Concat(serverFeatures, strainFeatures))
	for _, missing := range c.Missing() {
		fmt.Fprintf(&s, "never met: %s\n", missing)
	}
	return s.String()
}

func (c *Coverage) table(s *strings.Builder, rows, columns []string) {
	fmt.Fprintf(s, "\n%-20s", "")
	for _, column := range columns {
		fmt.Fprintf(s, " %7s", strings.ReplaceAll(column, " ", "-")[:min(7, len(column))])
	}
	s.WriteString("\n")
	for _, row := range rows {
		fmt.Fprintf(s, "%-20s", row)
		for _, column := range columns {
			fmt.Fprintf(s, " %7d", c.pairs[[2]string{row, column}])
		}
		s.WriteString("\n")
	}
	s.WriteString("\n")
}

// Missing are the pairs that no history had.
func (c *Coverage) Missing() (missing []string) {
	for _, p := range [][2][]string{
		{operationFeatures, bandFeatures}, {operationFeatures, failureFeatures}, {failureFeatures, bandFeatures},
		{fleetOperations, bandFeatures}, {fleetOperations, failureFeatures},
		{redisFeatures, {"cluster", "store-stall"}}, {{"slot moves"}, {"redirected", "given back", "answer lost"}},
		{serverFeatures, {"slots", "quota", "token bucket", "shadow", "leaves", "renew"}},
	} {
		for _, a := range p[0] {
			for _, b := range p[1] {
				if c.pairs[[2]string{a, b}] == 0 {
					missing = append(missing, a+" and "+b)
				}
			}
		}
	}
	return missing
}

// redisFeatures says what happened to calls of servers of Redis.
func (h *History) redisFeatures(facts []Fact, found map[string]bool) {
	r := h.Redis
	if r.Nodes == 0 {
		return
	}
	found[map[bool]string{true: "cluster", false: "one server"}[r.Cluster]] = true
	if h.Gateways[0].Latency >= 50*time.Millisecond {
		found["far away"] = true
	}
	for i := range facts {
		c := facts[i].Call
		if c == nil {
			continue
		}
		found["shared call"] = found["shared call"] || len(c.Entries) > 1
		found["call lost"] = found["call lost"] || c.Lost
		found["answer lost"] = found["answer lost"] || c.Ran && !c.Answered
		found["redirected"] = found["redirected"] || !c.Ran && c.Answered
		for k := range c.Entries {
			e := &c.Entries[k]
			found["two rounds"] = found["two rounds"] || e.Peeks && e.Cost > 0
			found["given back"] = found["given back"] || e.Settles && e.Actual == 0
			found["late settlement"] = found["late settlement"] || e.Settles && c.Ran && !c.Answered
		}
	}
	for name, is := range found {
		if !is {
			delete(found, name)
		}
	}
}
