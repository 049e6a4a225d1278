package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// A slot is held, renewed and released through a server as in the process.
func TestClient_Slots(t *testing.T) {
	clock := storetest.NewClock()
	store := fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now}))
	g := newGate(t, store, []rules.Rule{{ID: "slots", Bands: []rules.Band{{Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute}}}})
	first := g.check(fluxgate.Request{})
	if hold, ok := first.Hold(); !ok || hold != time.Minute {
		t.Errorf("held for %v, %t", hold, ok)
	}
	second := g.check(fluxgate.Request{})
	if _, ok := second.Hold(); ok || second.Allowed {
		t.Errorf("the second is %+v", answerOf(&second))
	}
	for range 3 {
		clock.Advance(59 * time.Second)
		time.Sleep(2 * time.Millisecond) // a token has the time of its renewal in milliseconds
		if err := g.Extend(t.Context(), first.Receipt()); err != nil {
			t.Fatal(err)
		}
	}
	if d := g.check(fluxgate.Request{}); d.Allowed {
		t.Error("a slot that was renewed is free")
	}
	if _, err := g.Settle(t.Context(), first.Receipt(), 1); err != nil {
		t.Fatal(err)
	}
	if err := g.Extend(t.Context(), first.Receipt()); !errors.Is(err, fluxgate.ErrNotHeld) {
		t.Errorf("renewed after it was released: %v", err)
	}
	third := g.check(fluxgate.Request{})
	if !third.Allowed {
		t.Error("a slot that was released is held")
	}
	clock.Advance(time.Minute)
	if err := g.Extend(t.Context(), third.Receipt()); !errors.Is(err, fluxgate.ErrNotHeld) {
		t.Errorf("renewed after it was lost: %v", err)
	}
}

// A server renews the slots that a receipt still holds, and the receipt, until it holds none.
func TestClient_SlotsLostInPart(t *testing.T) {
	clock := storetest.NewClock()
	buckets := fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now}))
	slots := []rules.Band{{Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute}}
	g := newGate(t, buckets, []rules.Rule{{ID: "kept", Bands: slots}, {ID: "lost", Bands: slots}})
	d := g.check(fluxgate.Request{})
	receipt := d.Receipt()
	before := receipt.Token
	if _, err := buckets.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "api", Rule: "lost"}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		clock.Advance(59 * time.Second)
		time.Sleep(2 * time.Millisecond) // a token has the time of its renewal in milliseconds
		if err := g.Extend(t.Context(), receipt); !errors.Is(err, fluxgate.ErrPartlyHeld) || !errors.Is(err, fluxgate.ErrNotHeld) {
			t.Fatalf("renewed in part: %v", err)
		}
	}
	if receipt.Token == before {
		t.Error("the receipt was not renewed")
	}
	if d := g.check(fluxgate.Request{}); d.Allowed {
		t.Error("the slot that was renewed is free")
	}
	before = receipt.Token
	clock.Advance(time.Minute)
	if err := g.Extend(t.Context(), receipt); !errors.Is(err, fluxgate.ErrNotHeld) || errors.Is(err, fluxgate.ErrPartlyHeld) {
		t.Errorf("renewed after all was lost: %v", err)
	}
	if receipt.Token != before {
		t.Error("a receipt without slots was renewed: it could be settled twice")
	}
	if _, err := g.Settle(t.Context(), receipt, 1); err != nil {
		t.Errorf("settling it: %v", err)
	}
}
