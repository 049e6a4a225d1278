// Package scale_test measures what lets one Redis serve a fleet: see make
// figures-scale.
package scale_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	for _, group := range []struct {
		name    string
		measure func(t *testing.T, report *figure.Report)
	}{
		{"hot key", hotKeyFigures}, {"utilisation", utilisationFigures}, {"blocked", blockedFigures},
		{"callers", callersFigures}, {"buckets", bucketFigures},
	} {
		t.Run(group.name, func(t *testing.T) { group.measure(t, report) })
	}
}
