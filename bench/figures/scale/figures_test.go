// Package scale_test measures what lets one Redis serve a fleet: see make
// figures-scale.
package scale_test

import (
	"flag"
	"os"
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

var measure = flag.Bool("figures", false, "measure the figures, which takes minutes")

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) {
	if !*measure {
		t.Skip("figures are measured by make figures-scale")
	}
	report := figure.NewReport(os.Stdout)
	for _, group := range []struct {
		name    string
		measure func(t *testing.T, report *figure.Report)
	}{
		{"hot key", hotKeyFigures}, {"utilisation", utilisationFigures}, {"blocked", blockedFigures},
		{"callers", callersFigures}, {"buckets", bucketFigures},
	} {
		t.Run(group.name, func(t *testing.T) { group.measure(t, report) })
	}
	if report.ExitCode() != 0 {
		t.Fail()
	}
}
