package insight_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/figures/insight"
)

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	lines, err := insight.SimulateLinesPerSecond(t.Context())
	if err != nil {
		report.Failed("insight-simulate-lines-per-second", err)
	} else {
		report.AtLeast("insight-simulate-lines-per-second", float64(int64(lines)), 200_000, "")
	}
	allocations(t, report)
	overhead(t, report)
	if figure.Smoke() {
		return // the tests of the console look at it
	}
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
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
