// Package rules_test measures how rules change while requests are decided: see
// make figures-rules.
package rules_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	decoding(t, report)
	reloading(t, report)
	arriving(t, report)
	cutOff(t, report)
	polling(t, report)
	writing(t, report)
}
