package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// Gatherer has the metrics as a scrape has them.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Outcomes are all values of the label outcome.
func Outcomes() []string {
	all := []string{outcomeAllowed}
	for _, reason := range reasons {
		all = append(all, string(reason))
	}
	return append(all, outcomeInvalid, outcomeCanceled, outcomeError, labelOther)
}

// Sources are all values of the label source of fluxgate_decisions_total.
func Sources() []string {
	var all []string
	for _, from := range []store.Source{store.FromStore, store.FromLease, store.FromNegativeCache, store.FromFallback} {
		all = append(all, sourceOf(&fluxgate.Decision{Band: "b", Source: from}))
	}
	return append(all, labelNone)
}

// Methods are all values of the label method of HTTP requests.
func Methods() []string { return append(methods[:len(methods):len(methods)], labelOther) }
