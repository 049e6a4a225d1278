package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchAudit tells whether the audit can be written: while it cannot, nothing
// can be changed through the admin API.
func (m *Metrics) WatchAudit(broken func() error) error {
	return m.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fluxgate_audit_broken", Help: "1 while the audit cannot be written, and nothing can be changed through the admin API.",
	}, func() float64 { return float64(indexOf(broken() != nil)) }))
}
