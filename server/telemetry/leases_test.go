package telemetry_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/store/lease"
)

// What leases have saved, and the tokens of slices, are reported.
func TestWatchLeases(t *testing.T) {
	m := newMetrics(t)
	m.WatchLeases(func() lease.Stats {
		return lease.Stats{Refused: 1, Paused: 2, Spent: 3, Slices: 4, Granted: 50, Wasted: 6, Held: 7, Buckets: 8}
	})
	got := scrape(t, m)
	for series, want := range map[string]float64{
		`fluxgate_lease_saved_calls_total{by="refusal"}`: 1, `fluxgate_lease_saved_calls_total{by="pause"}`: 2, `fluxgate_lease_saved_calls_total{by="slice"}`: 3,
		"fluxgate_lease_slices_total": 4, "fluxgate_lease_granted_tokens_total": 50, "fluxgate_lease_wasted_tokens_total": 6,
		"fluxgate_lease_held_tokens": 7, "fluxgate_lease_buckets": 8,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
}
