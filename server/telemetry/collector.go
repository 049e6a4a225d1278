package telemetry

import "github.com/prometheus/client_golang/prometheus"

// collector reports values that are read at a scrape.
type collector struct {
	descs   []*prometheus.Desc
	collect func(out chan<- prometheus.Metric)
}

// watch adds a collector.
func (m *Metrics) watch(collect func(out chan<- prometheus.Metric), descs ...*prometheus.Desc) {
	m.registry.MustRegister(&collector{descs, collect})
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) { c.collect(out) }

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
