package telemetry

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/fluxgate/fluxgate/server/insight"
)

// Durations returns the histogram of the time to decide.
func (m *Metrics) Durations() insight.Durations {
	var metric dto.Metric
	_ = m.meter.Seconds().Write(&metric) // a histogram: never fails
	h := metric.GetHistogram()
	out := insight.Durations{Total: h.GetSampleCount()}
	for _, bucket := range h.GetBucket() {
		out.Bounds = append(out.Bounds, bucket.GetUpperBound())
		out.Counts = append(out.Counts, bucket.GetCumulativeCount())
	}
	return out
}
