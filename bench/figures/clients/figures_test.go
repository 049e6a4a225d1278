// Package clients measures the clients for other languages, and what the metrics of the Go
// packages add to a program: see make figures-clients.
package clients

import (
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

const root = "../../.."

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	atMost := func(name string, bar float64) func(float64, error) {
		return func(value float64, err error) {
			if err != nil {
				report.Failed(name, err)
				return
			}
			report.AtMost(name, value, bar, "")
		}
	}
	atMost("clients-java-lines", 700)(codeLines(root+"/clients/java/src/main", ".java", javaSyntax))
	atMost("clients-python-lines", 700)(codeLines(root+"/clients/python/src", ".py", pythonSyntax))
	atMost("clients-go-metrics-mb", 1)(metricsMB(t.Context(), t.TempDir()))
	if figure.Smoke() {
		return // the rest needs make client-java and make client-python
	}
	atMost("clients-java-kb", 60)(fileKB(root+"/clients/java/build/*.jar", "make client-java"))
	atMost("clients-python-kb", 40)(fileKB(root+"/clients/python/dist/*.whl", "make client-python"))
	compareRates(t, report)
}
