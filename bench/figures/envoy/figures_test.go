// Package envoy_test compares Envoy's rate limit protocol with envoyproxy/ratelimit: that
// the answers are the same, and how fast they come. See make figures-envoy.
package envoy_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
)

const (
	rounds = 7
	slice  = 3 * time.Second
)

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	theirs, ours, err := start(t, plenty)
	if err != nil {
		for _, name := range []string{"calls-1", "calls-3", "cpu-per-call", "p999-at-equal-load", "leaked-hits"} {
			report.Failed("envoy-"+name, err)
		}
		t.FailNow()
	}
	one, three := newWorkload(t, 1), newWorkload(t, 3)
	perSecond := func(l load) float64 { return l.perSecond }
	saturated := alternate(t, theirs, ours, one, 0)
	report.AtLeast("envoy-calls-1", saturated.ratio(perSecond), 1.5, "×")
	report.AtLeast("envoy-calls-3", alternate(t, theirs, ours, three, 0).ratio(perSecond), 2, "×")

	paced := alternate(t, theirs, ours, one, saturated.slowest()/2)
	report.AtMost("envoy-cpu-per-call", paced.ratio(func(l load) float64 { return float64(l.cpu) }), 0.6, "×")
	report.AtMost("envoy-p999-at-equal-load", paced.ratio(func(l load) float64 { return float64(l.p999) }), 1, "×")

	_, ours = mustStart(t)
	report.AtMost("envoy-leaked-hits", float64(leakedHits(t, ours, nil)), 0, "")
}

// loads are those of both services in each round.
type loads struct{ theirs, ours []load }

// alternate measures both services by turns, with so many calls a second or, if rate is
// 0, as many as they answer.
func alternate(t *testing.T, theirs, ours *service, w *workload, rate float64) (all loads) {
	t.Helper()
	for round := range figure.Rounds(rounds) + 1 {
		their, own := theirs.run(t, w, figure.For(slice), rate), ours.run(t, w, figure.For(slice), rate)
		if round == 0 {
			continue // it creates the counters
		}
		t.Logf("%d descriptors: %s %v; %s %v", w.descriptors, ours.name, own, theirs.name, their)
		all.theirs, all.ours = append(all.theirs, their), append(all.ours, own)
	}
	return all
}

// ratio is the median ratio of ours to theirs.
func (l loads) ratio(of func(load) float64) float64 {
	ratios := make([]float64, len(l.ours))
	for i := range ratios {
		ratios[i] = of(l.ours[i]) / of(l.theirs[i])
	}
	return figure.MedianOf(ratios)
}

// slowest is how many calls a second the slower service answers.
func (l loads) slowest() float64 {
	median := func(all []load) float64 {
		values := make([]float64, len(all))
		for i := range all {
			values[i] = all[i].perSecond
		}
		return figure.MedianOf(values)
	}
	return min(median(l.theirs), median(l.ours))
}
