// Package rules_test measures how rules change while requests are decided: see
// make figures-rules.
package rules_test

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
		t.Skip("figures are measured by make figures-rules")
	}
	report := figure.NewReport(os.Stdout)
	decoding(t, report)
	reloading(t, report)
	arriving(t, report)
	cutOff(t, report)
	polling(t, report)
	writing(t, report)
	if report.ExitCode() != 0 {
		t.Fail()
	}
}
