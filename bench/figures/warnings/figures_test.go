// Package warnings_test measures warnings of limits: see make figures-warnings.
package warnings_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	t.Run("overhead", func(t *testing.T) { overhead(t, report) })
	t.Run("delay", func(t *testing.T) { delay(t, report) })
	t.Run("lost", func(t *testing.T) { lost(t, report) })
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
