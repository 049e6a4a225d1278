package telemetry

import "github.com/prometheus/client_golang/prometheus"

// collector reports values that are read at a scrape.
type collector func(out chan<- prometheus.Metric)

// Describe implements [prometheus.Collector]. The metrics are known only at a scrape.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) { c(out) }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fluxgate_"+name, help, labels, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter[N int64 | uint64](d *prometheus.Desc, value N, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
