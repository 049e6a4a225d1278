// Package trust_test measures what changes of credentials do to callers: see make figures-trust.
package trust_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	t.Run("rotate", func(t *testing.T) { rotate(t, report) })
	if !figure.Smoke() { // they run all tests
		checks(t, report)
	}
}
