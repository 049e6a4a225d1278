package telemetry

import "github.com/prometheus/client_golang/prometheus"

// collector reports values that are read at a scrape.
type collector func(out chan<- prometheus.Metric)

// Describe implements [prometheus.Collector]. The metrics are known only at a scrape.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) { c(out) }

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
