package client_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// A usage of nothing gives everything back, as in an engine: it is not one without numbers.
func TestClient_SettleUsageOfNothing(t *testing.T) {
	rule := perHour("r", 5)
	rule.Cost = "tokens"
	g := newGate(t, newStore(t), []rules.Rule{rule})
	for _, usage := range []fluxgate.Usage{{}, {Costs: map[string]int64{}}} {
		d := g.check(fluxgate.Request{Costs: map[string]int64{"tokens": 3}})
		if got, err := g.SettleUsage(t.Context(), d.Receipt(), &usage); err != nil || got["tokens"].Returned != 3 {
			t.Errorf("%+v: %+v, %v", usage, got, err)
		}
	}
}
