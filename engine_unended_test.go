package fluxgate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

func slotRules() []rules.Rule {
	slot := rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute}
	return []rules.Rule{
		{ID: "slots", Paths: []string{"/slots"}, Bands: []rules.Band{slot}},
		{ID: "both", Paths: []string{"/both"}, Bands: []rules.Band{slot, {Label: "tokens", Capacity: 5, Refill: time.Hour}}},
	}
}

// A request whose end is not reported takes no slot and is not limited by slots. Its decision
// names the other limits only.
func TestCheck_EndUnknown(t *testing.T) {
	g := newGate(t, slotRules(), fluxgate.WithMissingRule(false))
	for i := range 3 {
		d, err := g.Check(context.Background(), &fluxgate.Request{Path: "/slots", EndUnknown: true})
		if err != nil || !d.Allowed || d.Reason != fluxgate.ReasonOK || d.RuleID != "" || d.Degraded {
			t.Fatalf("request %d: %+v, %v", i, d, err)
		}
		if bands := slices.Collect(d.Bands()); len(bands) != 0 {
			t.Fatalf("request %d: limits %+v in the decision", i, bands)
		}
		if _, holds := d.Hold(); holds {
			t.Fatalf("request %d holds a slot", i)
		}
	}
	held, err := g.Check(context.Background(), &fluxgate.Request{Path: "/both"})
	if _, holds := held.Hold(); err != nil || !holds {
		t.Fatalf("a request with an end: %+v, %v", held, err)
	}
	for i := range 5 {
		d, err := g.Check(context.Background(), &fluxgate.Request{Path: "/both", EndUnknown: true})
		if want := i < 4; err != nil || d.Allowed != want || d.Band != "tokens" {
			t.Fatalf("request %d: %+v, %v, want allowed %t by its tokens", i, d, err, want)
		}
		if bands := slices.Collect(d.Bands()); len(bands) != 1 || bands[0].Band.Label != "tokens" {
			t.Fatalf("request %d: limits %+v in the decision", i, bands)
		}
	}
	want := []store.Key{{RuleSet: "api", Rule: "both"}, {RuleSet: "api", Rule: "slots"}}
	if got := g.NotEnforced(); !slices.Equal(got, want) {
		t.Errorf("NotEnforced() = %v, want %v", got, want)
	}
}

// With WithHeldSlots such a request holds its slot for hold, and its transport does not release it.
func TestCheck_EndUnknown_HeldSlots(t *testing.T) {
	g := newGate(t, slotRules(), fluxgate.WithHeldSlots())
	check := func() bool {
		t.Helper()
		d, err := g.Check(context.Background(), &fluxgate.Request{Path: "/slots", EndUnknown: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, holds := d.Hold(); holds {
			t.Fatal("the transport is to release the slot")
		}
		return d.Allowed
	}
	if first, second := check(), check(); !first || second {
		t.Errorf("allowed: %t and %t, want the first only", first, second)
	}
	if g.clock.Advance(time.Minute); !check() {
		t.Error("the slot is not free after hold")
	}
	if got := g.NotEnforced(); len(got) != 0 {
		t.Errorf("NotEnforced() = %v", got)
	}
}

// Descriptors of one call are treated alike.
func TestCheckAll_EndUnknown(t *testing.T) {
	g := newGate(t, slotRules())
	for i := range 3 {
		reqs := []fluxgate.Request{{Path: "/slots", EndUnknown: true}, {Path: "/both", EndUnknown: true}}
		if d, each, err := g.CheckAll(context.Background(), reqs); err != nil || !d.Allowed || !each[0].Allowed || each[1].Band != "tokens" {
			t.Fatalf("call %d: %+v, %+v, %v", i, d, each, err)
		}
	}
}

// Explain says which rules do not limit the concurrent requests of proxies.
func TestExplain_EndNeeded(t *testing.T) {
	for want, options := range map[bool][]fluxgate.Option{true: nil, false: {fluxgate.WithHeldSlots()}} {
		found, err := newGate(t, slotRules(), options...).Explain(context.Background(), &fluxgate.Request{Path: "/both"})
		if err != nil || found.Rules[0].EndNeeded != want {
			t.Errorf("%+v, %v: want %t", found.Rules, err, want)
		}
	}
}
