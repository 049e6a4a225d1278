package meter

import "github.com/prometheus/client_golang/prometheus"

// Desc describes a metric of FluxGate.
func Desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fluxgate_"+name, help, labels, nil)
}

// Gauge is the value of a gauge at a scrape.
func Gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// Counter is the value of a counter at a scrape.
func Counter[N int64 | uint64](d *prometheus.Desc, value N, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}
