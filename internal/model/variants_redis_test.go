package model

import (
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// quietOnRedis is a history without faults, in which faulty variants of a store in Redis show.
func quietOnRedis() *History {
	h := &History{
		Seed: 1, Begins: 10 * time.Hour, Gateways: []Gateway{{Latency: ms}, {Latency: ms}}, Redis: Redis{Nodes: 2, Cluster: true, Shards: 4, Timeout: 100 * ms},
		Versions: rulesOf(strict("r", rules.Band{Label: "day", Kind: rules.Quota, Capacity: 100, Period: "day"}, rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 50, Hold: time.Hour})),
		Ops:      []Op{{At: 5 * time.Second, Kind: OpCheck, Gateway: All, Caller: "a", N: 10, Span: time.Second, Cost: 2, Tokens: 1, Lasts: 10 * ms, Actual: 1, SettleAt: All}},
	}
	h.rest()
	return h
}

// Faulty variants of a store in Redis break the line that is about them.
func TestVariants_Redis(t *testing.T) {
	h := quietOnRedis()
	for _, v := range Check(h, Run(t, h)) {
		t.Error("unbroken: ", v)
	}
	servers := func(facts []Fact) *Fact {
		return &facts[slices.IndexFunc(facts, func(f Fact) bool { return f.Kind == ServerHas })]
	}
	decision := func(facts []Fact) *Fact {
		return &facts[slices.IndexFunc(facts, func(f Fact) bool { return f.Kind == Decided })]
	}
	for name, v := range map[string]struct {
		line  Line
		broke func(facts []Fact)
	}{
		"a settled request keeps its slot": {LineSlots, func(facts []Fact) { f := servers(facts); f.Holds = append(f.Holds, Hold{Check: 1, ID: [16]byte{1}}) }},
		"a rejected request keeps its slot": {LineSlots, func(facts []Fact) {
			f := servers(facts)
			f.Holds = append(f.Holds, Hold{Check: 1, ID: [16]byte{1}})
			decision(facts).Allowed = false
		}},
		"a settlement is lost":                  {LineConservation, func(facts []Fact) { servers(facts).Buckets[0].Bands[0].Remaining-- }},
		"a settlement gives back twice":         {LineConservation, func(facts []Fact) { servers(facts).Buckets[0].Bands[0].Remaining += 3 }},
		"a call fails for a request beside its": {LineRecovery, func(facts []Fact) { decision(facts).Degraded = true }},
	} {
		t.Run(name, func(t *testing.T) {
			facts := Run(t, h)
			v.broke(facts)
			var lines []Line
			for _, found := range Check(h, facts) {
				lines = append(lines, found.Line)
			}
			if !slices.Contains(lines, v.line) {
				t.Errorf("line %s does not reject it, but %v", v.line, lines)
			}
		})
	}
}
