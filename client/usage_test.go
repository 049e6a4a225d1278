package client_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
)

// A usage of nothing gives everything back, as in an engine: it is not one without fields.
func TestClient_SettleUsageOfNothing(t *testing.T) {
	rule := perHour("r", 5)
	rule.Cost = "tokens"
	g := newGate(t, newStore(t), []fluxgate.Rule{rule})
	d := g.check(fluxgate.Request{Costs: map[string]int64{"tokens": 3}})
	if got, err := g.SettleUsage(t.Context(), d.Receipt(), &fluxgate.Usage{}); err != nil || got["tokens"].Returned != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
