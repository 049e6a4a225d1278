package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/fluxgate/fluxgate/bench/figure"
)

// What is internal to the product cannot be imported here. Its own tests and
// benchmarks measure it, and are run here and read.

// product is the directory of the product's module.
const product = ".."

// matcher compares the matcher's benchmark at 10,000 rules with that at 100.
func matcher(report *figure.Report) {
	const name = "matcher-10000-rules"
	small, large, allocations, err := matcherTimes()
	if err != nil {
		report.Failed(name, err)
		return
	}
	report.AtMost(name, large/small, 1.5, "× 100 rules")
	report.AtMost(name+"-allocs", allocations, 0, " allocs/op")
}

// matcherTimes are the times of the fastest turns, in nanoseconds, and the
// most allocations of any. The benchmarks take turns because the test is
// built once and run often.
func matcherTimes() (small, large, allocations float64, err error) {
	dir, err := os.MkdirTemp("", "figures")
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "match.test")
	if _, err := output("go", "test", "-c", "-o", binary, "./internal/match"); err != nil {
		return 0, 0, 0, err
	}
	small, large = math.Inf(1), math.Inf(1)
	for range 15 {
		text, err := output(binary, "-test.run=^$", "-test.bench=^BenchmarkMatch(100|10000)$", "-test.benchtime=20ms")
		if err != nil {
			return 0, 0, 0, err
		}
		found := benchmarkLine.FindAllStringSubmatch(text, -1)
		if len(found) != 2 {
			return 0, 0, 0, fmt.Errorf("the matcher's benchmarks printed: %s", text)
		}
		small, large = min(small, number(found[0][1])), min(large, number(found[1][1]))
		allocations = max(allocations, number(found[0][2]), number(found[1][2]))
	}
	return small, large, allocations, nil
}

var benchmarkLine = regexp.MustCompile(`(?m)^BenchmarkMatch.*\s([0-9.]+) ns/op.*\s([0-9.]+) allocs/op$`)

// arithmetic compares the bucket with exact rationals, and replays histories
// in which tokens are given back.
func arithmetic(report *figure.Report) {
	steps := regexp.MustCompile(`(\d+) steps, 0 differences; (\d+) of (\d+) random bands refused`)
	if found, err := bucketTest("TestArithmeticEqualsExactRationals", steps, "-bucket.steps=1000000"); err != nil {
		report.Failed("exact-steps", err)
	} else {
		report.Verdict("exact-steps",
			fmt.Sprintf("%s steps, 0 differences, %s of %s random bands refused", found[1], found[2], found[3]),
			"0 differences", true)
	}
	histories := regexp.MustCompile(`(\d+) histories conform`)
	if found, err := bucketTest("TestNoIntervalSeesTooManyTokensWhateverIsGivenBack", histories); err != nil {
		report.Failed("exact-histories", err)
	} else {
		report.Verdict("exact-histories", found[1]+" histories conform", "20000", found[1] == "20000")
	}
}

// bucketTest runs a test of the arithmetic and finds what it has logged. A
// test that fails is an error with what it says.
func bucketTest(name string, wanted *regexp.Regexp, flags ...string) ([]string, error) {
	text, err := output("go", append([]string{"test", "./internal/bucket", "-count=1", "-v", "-run=^" + name + "$"}, flags...)...)
	if err != nil {
		return nil, err
	}
	found := wanted.FindStringSubmatch(text)
	if found == nil {
		return nil, errors.New(name + " no longer says what it did")
	}
	return found, nil
}

// output is what a command prints, run in the product's module.
func output(name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...) //nolint:gosec // the arguments are the ones written here
	command.Dir = product
	text, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", command, err, text)
	}
	return string(text), nil
}

// number reads what a regular expression has found to be one.
func number(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	must(err)
	return x
}
