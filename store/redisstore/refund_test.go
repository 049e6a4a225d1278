package redisstore

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Refused hits that a quota has counted are given back in full.
func TestRefund_CountRefused(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := newTrial(t, srv.URI(), Config{}, srv).Store
	rule := rules.Rule{ID: "counts", CountRefused: true, Bands: []rules.Band{{Kind: rules.Quota, Capacity: 5, Period: "year"}}}
	engine := fluxgate.Must(fluxgate.New(s, fluxgate.Static(fluxgate.Must(rules.NewSet("api", rule))), fluxgate.WithOnFailure(rules.FailClosed)))
	if d, err := engine.Check(t.Context(), &fluxgate.Request{Cost: 50}); err != nil || d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	for _, c := range []struct{ refund, remaining, owed int64 }{{30, 0, 15}, {17, 2, 0}, {store.MaxCost, 5, 0}} {
		d, err := engine.Refund(t.Context(), &fluxgate.Request{Cost: c.refund})
		if err != nil || d.Remaining != c.remaining || d.Owed != c.owed {
			t.Errorf("%d given back: %+v, %v; want %d left and %d owed", c.refund, d, err, c.remaining, c.owed)
		}
	}
}
