package plane_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/plane"
)

// A server that has not reached Redis yet keeps the settlements of receipts of other servers, and sends
// them when Redis answers.
func TestSettle_BeforeConnected(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	set := fluxgate.Must(rules.NewSet("api-limits", rules.Rule{ID: "all", Bands: []rules.Band{
		{Kind: rules.Concurrency, Label: "slots", Capacity: 10, Hold: time.Hour},
	}}))
	open := func(wait time.Duration) *plane.Plane {
		c := fluxgate.Must(config.Load(config.Sources{Set: []string{"redis.uri=" + redis.URI(), "redis.timeout=1s", "mongo.enabled=false"}}))
		p := fluxgate.Must(plane.New(c, slog.New(slog.DiscardHandler)))
		if err := p.Open(t.Context(), plane.Options{Rules: fluxgate.Static(set), Wait: wait}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	one := open(time.Minute)
	var receipts []*fluxgate.Receipt
	for range 3 {
		d, err := one.Check(t.Context(), new(fluxgate.Request))
		if err != nil || !d.Allowed || d.Degraded {
			t.Fatalf("%+v, %v", d, err)
		}
		receipts = append(receipts, d.Receipt())
	}
	if err := redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	other := open(50 * time.Millisecond)
	for _, r := range receipts {
		if _, err := other.Settle(t.Context(), r, 1); err != nil {
			t.Error(err)
		}
	}
	if n := other.FallbackStats().PendingSettlements; n != 3 {
		t.Errorf("%d settlements wait, want 3", n)
	}
	if err := redis.Thaw(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the settlements are sent", func() bool { return other.FallbackStats().PendingSettlements == 0 })
	testenv.Eventually(t, "the slots are free", func() bool {
		d, err := other.Check(t.Context(), &fluxgate.Request{Peek: true})
		return err == nil && !d.Degraded && d.Remaining == 10
	})
	if n := other.FallbackStats().LostSettlements; n != 0 {
		t.Errorf("%d settlements are lost", n)
	}
}
