package figure

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// A smoke test judges no bar, and fails for what cannot be measured.
func TestReport_Smoke(t *testing.T) {
	*smoke = true
	t.Cleanup(func() { *smoke = false })
	var out strings.Builder
	r := NewReport(&out)
	r.AtMost("big", 201, 200, " B")
	if r.ExitCode() != 0 {
		t.Error("a smoke test has judged a figure")
	}
	r.Failed("none", errors.New("no server"))
	if r.ExitCode() != 1 {
		t.Error("a figure that cannot be measured does not fail")
	}
	want := `figure big: 201 B (bar at most 200 B) not judged
figure none: not measured: no server (bar measured) SHORT
`
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", &out, want)
	}
}

func TestRatio_PerOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func(times int) func(int) {
			return func(n int) { time.Sleep(time.Duration(n * times)) }
		}
		if r := Ratio(work(400), work(100)); r != 4 {
			t.Errorf("four times the work takes %v times as long", r)
		}
	})
}
