package figure

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	measured = flag.Bool("figures", false, "measure the figures against their bars, which takes minutes")
	smoke    = flag.Bool("smoke", false, "measure them for a moment, to see that they still run: no bar is judged")
)

// Smoke reports whether figures run only for a moment, and no bar is judged.
func Smoke() bool { return *smoke }

// Rounds is how often to repeat a measurement: once in a smoke test.
func Rounds(n int) int {
	if Smoke() {
		return 1
	}
	return n
}

// Some is how many things to measure with: few of them in a smoke test.
func Some(n int) int {
	if Smoke() {
		return max(1, n/100)
	}
	return n
}

// For is how long to measure: a moment in a smoke test.
func For(d time.Duration) time.Duration {
	if Smoke() {
		return min(d, max(d/20, 100*time.Millisecond))
	}
	return d
}

// Run measures figures in a test, which fails if one is short of its bar or cannot be measured.
func Run(t *testing.T, measure func(*Report)) {
	if !*measured && !*smoke {
		t.Skip("figures are measured by make figures-..., and run for a moment by make figures-smoke")
	}
	report := NewReport(os.Stdout)
	measure(report)
	if report.ExitCode() != 0 {
		t.Fail()
	}
}
