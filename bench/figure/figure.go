// Package figure measures the project's claims about speed and size, and
// reports whether each holds.
//
// Machines differ and are shared, so a figure is a ratio to a control that ran
// alternately in the same process: see [Ratio].
package figure

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
)

// Report prints figures, one line each, and remembers if one fell short.
type Report struct {
	out   io.Writer
	short bool
}

// NewReport returns a report that prints to out.
func NewReport(out io.Writer) *Report { return &Report{out: out} }

// Verdict prints a figure whose bar is more than a number.
func (r *Report) Verdict(name, value, bar string, ok bool) {
	verdict := "ok"
	switch {
	case Smoke():
		verdict = "not judged"
	case !ok:
		verdict = "SHORT"
		r.short = true
	}
	_, _ = fmt.Fprintf(r.out, "figure %s: %s (bar %s) %s\n", name, value, bar, verdict)
}

// AtMost prints a figure that must not be above its bar.
func (r *Report) AtMost(name string, value, bar float64, unit string) {
	r.record(name, value, unit)
	r.Verdict(name, number(value)+unit, "at most "+number(bar)+unit, value <= bar)
}

// AtLeast prints a figure that must not be below its bar.
func (r *Report) AtLeast(name string, value, bar float64, unit string) {
	r.record(name, value, unit)
	r.Verdict(name, number(value)+unit, "at least "+number(bar)+unit, value >= bar)
}

// Print prints a figure without a bar.
func (r *Report) Print(name string, value float64, unit string) {
	r.record(name, value, unit)
	_, _ = fmt.Fprintf(r.out, "figure %s: %s (no bar)\n", name, number(value)+unit)
}

// record writes a figure to the file that FACTS_FILE names, if it names one.
func (r *Report) record(name string, value float64, unit string) {
	path := os.Getenv("FACTS_FILE")
	if path == "" || Smoke() {
		return
	}
	if err := Record(path, map[string]Fact{name: NewFact(value, unit, Today())}); err != nil {
		r.Failed(name, err)
	}
}

// Failed prints a figure that could not be measured.
func (r *Report) Failed(name string, err error) {
	r.short = true
	_, _ = fmt.Fprintf(r.out, "figure %s: not measured: %v (bar measured) SHORT\n", name, err)
}

// ExitCode is 1 if a figure fell short.
func (r *Report) ExitCode() int {
	if r.short {
		return 1
	}
	return 0
}

// number shows two decimals if they are significant.
func number(x float64) string {
	if x == float64(int64(x)) {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

const (
	rounds = 201
	turn   = 5 * time.Millisecond
)

// Ratio is how many times as long as the control the subject takes per
// operation. Both are given how many operations to do. They run in turns of
// some milliseconds, long enough for the garbage they make to be collected
// in; the median of the turns counts.
func Ratio(subject, control func(n int)) float64 {
	subjects, controls := calibrate(subject), calibrate(control)
	return Median(rounds, func() float64 {
		return perOperation(subject, subjects) / perOperation(control, controls)
	})
}

// Median is the median of so many measurements.
func Median(times int, measure func() float64) float64 {
	values := make([]float64, Rounds(times))
	for i := range values {
		values[i] = measure()
	}
	return MedianOf(values)
}

// MedianOf is the median of values, which it sorts.
func MedianOf(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// calibrate finds how many operations fill a turn, which also warms up.
func calibrate(f func(n int)) int {
	for n := 64; ; n *= 2 {
		if perOperation(f, n)*float64(n) >= float64(turn) {
			return n
		}
	}
}

// perOperation is the time of one of n operations, in nanoseconds.
func perOperation(f func(n int), n int) float64 {
	start := time.Now()
	f(n)
	return float64(time.Since(start)) / float64(n)
}
