package insight_test

import (
	"flag"
	"os"
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/figures/insight"
)

var measure = flag.Bool("figures", false, "measure the figures, which takes minutes")

func TestFigures(t *testing.T) {
	if !*measure {
		t.Skip("figures are measured by make figures-insight")
	}
	report := figure.NewReport(os.Stdout)
	lines, err := insight.SimulateLinesPerSecond(t.Context())
	if err != nil {
		report.Failed("insight-simulate-lines-per-second", err)
	} else {
		report.AtLeast("insight-simulate-lines-per-second", float64(int64(lines)), 200_000, "")
	}
	allocations(t, report)
	overhead(t, report)
	const folder = "../../../console"
	if size, err := insight.ConsoleBundleKB(t.Context(), folder); err != nil {
		report.Failed("console-bundle-kb", err)
	} else {
		report.AtMost("console-bundle-kb", size, 400, "")
	}
	if paint, err := insight.ConsoleFirstPaint(t.Context(), folder); err != nil {
		report.Failed("console-first-paint-ms", err)
	} else {
		report.AtMost("console-first-paint-ms", paint, 1_000, "")
	}
	if report.ExitCode() != 0 {
		t.Fail()
	}
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
