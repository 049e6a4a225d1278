package telemetry_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// The histogram is cumulative, with the bounds of the metric.
func TestMetrics_Durations(t *testing.T) {
	m := telemetry.New(telemetry.Config{})
	limiter := m.Limiter(answers{d: fluxgate.Decision{Allowed: true}})
	for range 3 {
		if _, err := limiter.Check(t.Context(), new(fluxgate.Request)); err != nil {
			t.Fatal(err)
		}
	}
	d := m.Durations()
	if last := len(d.Bounds) - 1; d.Total != 3 || len(d.Counts) != len(d.Bounds) || d.Bounds[last] != 2.5 || d.Counts[last] != 3 {
		t.Errorf("%+v", d)
	}
}
