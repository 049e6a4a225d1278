// Package envoy_test compares Envoy's rate limit protocol with envoyproxy/ratelimit: that
// the answers are the same, and what they cost. See make figures-envoy.
package envoy_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/load"
)

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

// Processor time has bars, throughput and latency do not: on a shared machine they vary by a
// third from run to run, while the ratio of processor times varies by some percent.
func measure(t *testing.T, report *figure.Report) {
	theirs, ours, err := start(t, load.Plenty)
	if err != nil {
		for _, name := range []string{"total-cpu-1", "total-cpu-3", "cpu-per-call", "leaked-hits"} {
			report.Failed("envoy-"+name, err)
		}
		t.FailNow()
	}
	one := load.NewCalls(t, 1)
	saturated := load.Alternate(t, theirs.Calling(t, one, 0), ours.Calling(t, one, 0))
	report.Print("envoy-calls-1", load.Ratio(saturated[1], saturated[0], load.PerSecondOf), "×")
	report.AtMost("envoy-total-cpu-1", load.Ratio(saturated[1], saturated[0], load.TotalOf), 0.65, "×")

	three := load.NewCalls(t, 3)
	several := load.Alternate(t, theirs.Calling(t, three, 0), ours.Calling(t, three, 0))
	report.Print("envoy-calls-3", load.Ratio(several[1], several[0], load.PerSecondOf), "×")
	report.AtMost("envoy-total-cpu-3", load.Ratio(several[1], several[0], load.TotalOf), 0.8, "×")

	slowest := min(load.Median(saturated[0], load.PerSecondOf), load.Median(saturated[1], load.PerSecondOf))
	paced := load.Alternate(t, theirs.Calling(t, one, slowest/2), ours.Calling(t, one, slowest/2))
	report.AtMost("envoy-cpu-per-call", load.Ratio(paced[1], paced[0], load.CPUOf), 0.6, "×")
	report.Print("envoy-p999-at-equal-load", load.Ratio(paced[1], paced[0], func(l load.Load) time.Duration { return l.Far }), "×")

	_, ours = mustStart(t)
	report.AtMost("envoy-leaked-hits", float64(leakedHits(t, ours, nil)), 0, "")
}
