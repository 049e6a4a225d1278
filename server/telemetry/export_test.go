package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate/internal/meter"
)

// Gatherer has the metrics as a scrape has them.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Methods are all values of the label method of HTTP requests.
func Methods() []string { return append(methods[:len(methods):len(methods)], meter.Other) }
