// Package http_test measures the middleware against others: see make
// figures-http.
package http_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	inMemory(t, report)
	overRedis(t, report)
}

// inMemory compares the time that the middleware adds to a bare handler with
// what the fastest of the others adds.
func inMemory(t *testing.T, report *figure.Report) {
	t.Helper()
	handlers := map[string]http.Handler{
		"bare": bare, "ours": ours(t, memory(t))(bare), "httprate": httprateInMemory(bare),
		"ulule": ululeInMemory(bare), "throttled": throttledInMemory(t)(bare),
	}
	const rounds, requests = 101, 5_000
	added := map[string][]float64{}
	var ratios []float64
	for range figure.Rounds(rounds) {
		took := map[string]float64{}
		for name, h := range handlers { // in random order
			took[name] = perRequest(h, requests)
		}
		fastest := 0.0
		for name := range handlers {
			more := took[name] - took["bare"]
			added[name] = append(added[name], more)
			if name != "ours" && name != "bare" && (fastest == 0 || more < fastest) {
				fastest = more
			}
		}
		ratios = append(ratios, (took["ours"]-took["bare"])/fastest)
	}
	for _, name := range []string{"ours", "httprate", "ulule", "throttled"} {
		t.Logf("%s adds %.0f ns and %.0f allocations", name, figure.MedianOf(added[name]), allocations(handlers[name])-allocations(bare))
	}
	report.AtMost("http-memory-added-vs-fastest-other", figure.MedianOf(ratios), 1, "×")
	report.AtMost("http-memory-allocations", allocations(handlers["ours"])-allocations(bare), 6, "")
}

// overRedis sends requests of 64 callers through each middleware to one Redis.
func overRedis(t *testing.T, report *figure.Report) {
	t.Helper()
	server := testenv.StartStandalone(t, testenv.Config{})
	handlers := map[string]http.Handler{
		"ours": ours(t, shared(t, server))(bare), "ulule": ululeOverRedis(t, server)(bare), "throttled": throttledOverRedis(t, server)(bare),
	}
	vs := map[string][]float64{}
	for range figure.Rounds(7) {
		rate := map[string]float64{}
		for name, h := range handlers {
			rate[name] = perSecond(t, h, 64, figure.For(time.Second))
		}
		for name := range handlers {
			vs[name] = append(vs[name], rate["ours"]/rate[name])
		}
		t.Logf("ours %.0f/s, ulule %.0f/s, throttled %.0f/s", rate["ours"], rate["ulule"], rate["throttled"])
	}
	report.AtLeast("http-redis-vs-ulule", figure.MedianOf(vs["ulule"]), 2, "×")
	report.AtLeast("http-redis-vs-throttled", figure.MedianOf(vs["throttled"]), 2, "×")
}
