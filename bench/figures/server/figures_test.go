// Package server_test measures the server against envoyproxy/ratelimit over HTTP: see
// make figures-server.
package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

// Processor time has a bar, throughput and latency do not: on a shared machine they vary by a
// third from run to run.
func measure(t *testing.T, report *figure.Report) {
	ours := startFluxgate(t)
	other, err := startRatelimit(t)
	if err != nil {
		report.Failed("server-cpu-per-call", err)
		return
	}
	for _, limits := range []int{1, 3} {
		runs := make([]load.Run, 2)
		for i, s := range []*target{other, ours} {
			if err := s.verify(t.Context(), limits); err != nil {
				t.Fatal(err)
			}
			runs[i] = s.Posting(t, s.url, s.body(limits, false), limits)
		}
		all := load.Alternate(t, runs...)
		suffix := fmt.Sprintf("vs-envoy-ratelimit-%d-limits", limits)
		if limits == 1 {
			suffix = "vs-envoy-ratelimit-1-limit"
			report.AtMost("server-cpu-per-call", load.Ratio(all[1], all[0], load.CPUOf), 0.65, "×")
		}
		report.Print("server-"+suffix, load.Ratio(all[1], all[0], load.PerSecondOf), "×")
		report.Print("server-p99-"+suffix, load.Ratio(all[1], all[0], func(l load.Load) time.Duration { return l.P99 }), "×")
	}
}
