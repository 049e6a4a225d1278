package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// A slot is held, renewed and released through a server as in the process.
func TestClient_Slots(t *testing.T) {
	clock := storetest.NewClock()
	store := fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now}))
	g := newGate(t, store, []fluxgate.Rule{{ID: "slots", Bands: []fluxgate.Band{{Kind: fluxgate.Concurrency, Capacity: 1, Hold: time.Minute}}}})
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
