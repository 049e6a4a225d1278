// Command core measures the core of FluxGate, in process and on one machine,
// against the limiter that a Go programmer would write first: limiters of
// golang.org/x/time/rate in a map under a mutex.
//
// It runs in the bench module's directory, as make figures-core does, and
// exits with 1 if a figure falls short of its bar.
package main

import (
	"flag"
	"os"

	"github.com/fluxgate/fluxgate/bench/figure"
)

func main() {
	flag.Parse()
	report := figure.NewReport(os.Stdout)
	measure(report)
	os.Exit(report.ExitCode())
}

func measure(report *figure.Report) {
	speed(report)
	cores(report)
	matcher(report)
	heap(report)
	arithmetic(report)
}

// must is for what cannot fail unless the measurement itself is wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
