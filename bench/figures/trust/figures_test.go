// Package trust_test measures what changes of credentials do to callers: see make figures-trust.
package trust_test

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
		t.Skip("figures are measured by make figures-trust")
	}
	report := figure.NewReport(os.Stdout)
	t.Run("rotate", func(t *testing.T) { rotate(t, report) })
	if report.ExitCode() != 0 {
		t.Fail()
	}
}
