package figure

import (
	"strings"
	"testing"
)

// A report prints every figure, and its exit code says whether one fell short.
func TestReport_ExitCode(t *testing.T) {
	var out strings.Builder
	r := NewReport(&out)
	r.AtMost("fast", 1.5, 1.5, "×")
	r.AtLeast("wide", 1.75, 1.6, "×")
	if r.ExitCode() != 0 {
		t.Error("all figures hold, the exit code says no")
	}
	r.AtMost("big", 201, 200, " B")
	r.AtLeast("narrow", 1.2, 1.6, "×")
	if r.ExitCode() != 1 {
		t.Error("two figures are short, the exit code says nothing")
	}
	want := `figure fast: 1.50× (bar at most 1.50×) ok
figure wide: 1.75× (bar at least 1.60×) ok
figure big: 201 B (bar at most 200 B) SHORT
figure narrow: 1.20× (bar at least 1.60×) SHORT
`
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", &out, want)
	}
}

func TestRatio_PerOperation(t *testing.T) {
	work := func(times int) func(int) {
		x := uint64(1)
		return func(n int) {
			for range n * times {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
			}
		}
	}
	if r := Ratio(work(400), work(100)); r < 2 || r > 8 {
		t.Errorf("four times the work takes %.1f times as long", r)
	}
}
