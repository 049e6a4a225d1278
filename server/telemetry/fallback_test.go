package telemetry_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
)

// The tokens of the fallback and the number of servers are reported.
func TestWatchFallback(t *testing.T) {
	m := newMetrics(t)
	m.WatchFallback(func() fluxgate.FallbackStats {
		return fluxgate.FallbackStats{Admitted: 50, Pending: 10, Charged: 30, Uncharged: 5, PendingSettlements: 3, LostSettlements: 2}
	}, func() int { return 4 })
	got := scrape(t, m)
	for name, want := range map[string]float64{
		"fluxgate_fallback_admitted_tokens_total": 50, "fluxgate_fallback_pending_tokens": 10,
		"fluxgate_fallback_charged_tokens_total": 30, "fluxgate_fallback_uncharged_tokens_total": 5,
		"fluxgate_fallback_pending_settlements": 3, "fluxgate_fallback_lost_settlements_total": 2, "fluxgate_fleet_servers": 4,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
