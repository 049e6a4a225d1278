// Package server_test measures the server against envoyproxy/ratelimit: see
// make figures-server.
package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	ours := startFluxgate(t)
	other, unmeasured := startRatelimit(t)
	for _, limits := range []int{1, 3} {
		suffix := fmt.Sprintf("vs-envoy-ratelimit-%d-limit", limits)
		if limits > 1 {
			suffix += "s"
		}
		rate, p99, err := 0.0, 0.0, unmeasured
		if err == nil {
			rate, p99, err = compare(t, ours, other, limits)
		}
		if err != nil {
			report.Failed("server-"+suffix, err)
			report.Failed("server-p99-"+suffix, err)
			continue
		}
		report.AtLeast("server-"+suffix, rate, 2, "×")
		report.AtMost("server-p99-"+suffix, p99, 1, "×")
	}
}

const (
	rounds = 7
	slice  = 3 * time.Second // wrk knows whole seconds only
)

// compare returns the ratio of our throughput to the other's, and of our 99th
// percentile to the other's: the median of rounds that measure both.
func compare(t *testing.T, ours, other *target, limits int) (rate, p99 float64, err error) {
	t.Helper()
	for _, s := range []*target{ours, other} {
		if err := s.verify(t.Context(), limits); err != nil {
			return 0, 0, err
		}
		if _, err := s.run(t.Context(), limits, time.Second); err != nil { // to warm up
			return 0, 0, err
		}
	}
	var rates, p99s []float64
	for range figure.Rounds(rounds) {
		own, err := ours.run(t.Context(), limits, max(time.Second, figure.For(slice)))
		if err != nil {
			return 0, 0, err
		}
		their, err := other.run(t.Context(), limits, max(time.Second, figure.For(slice)))
		if err != nil {
			return 0, 0, err
		}
		t.Logf("%d limits: %s %v; %s %v", limits, ours.name, own, other.name, their)
		rates = append(rates, own.perSecond/their.perSecond)
		p99s = append(p99s, float64(own.p99)/float64(their.p99))
	}
	return figure.MedianOf(rates), figure.MedianOf(p99s), nil
}
