package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/match"
)

// matcher compares the matcher at 10,000 rules with itself at 100, each with
// paths of their own and requests for all of them in turn.
func matcher(report *figure.Report) {
	small, large := matching(100), matching(10_000)
	report.AtMost("matcher-10000-rules", figure.Ratio(large, small), 1.5, "× 100 rules")
	report.AtMost("matcher-10000-rules-allocs", max(allocations(small), allocations(large)), 0, " allocs/op")
}

// matching matches requests against so many rules.
func matching(count int) func(n int) {
	shapes := []struct{ pattern, path string }{
		{"/api/v1/service-%d/**", "/api/v1/service-%d/items/42"},
		{"/api/v1/service-%d/items/*", "/api/v1/service-%d/items/42"},
		{"/api/v2/team-%d/*/export", "/api/v2/team-%d/reports/export"},
		{"/static/bundle-%d", "/static/bundle-%d"},
	}
	rules, paths := make([]match.Rule, count), make([]string, count)
	for i := range rules {
		shape := shapes[i%len(shapes)]
		rules[i].Paths = []string{fmt.Sprintf(shape.pattern, i)}
		paths[i] = fmt.Sprintf(shape.path, i)
	}
	// In an order in which neighbours in memory are of no help.
	rand.New(rand.NewPCG(1, 2)).Shuffle(count, func(i, j int) { paths[i], paths[j] = paths[j], paths[i] }) //nolint:gosec // the same order every time
	m, err := match.Compile(rules)
	must(err)
	request := &match.Request{Method: "GET", Host: "api.example.com"}
	found := make([]int32, 0, 64)
	next := 0
	return func(n int) {
		for range n {
			request.Path = paths[next]
			if next++; next == count {
				next = 0
			}
			if found = m.Match(request, found[:0]).Rules; len(found) != 1 {
				panic(request.Path)
			}
		}
	}
}

// arithmetic compares the bucket with exact rationals, and replays histories
// in which tokens are given back.
func arithmetic(report *figure.Report) {
	steps := regexp.MustCompile(`(\d+) steps, 0 differences; (\d+) of (\d+) random bands refused`)
	if found, err := bucketTest("TestArithmetic_EqualsRationals_NoRace", steps, "-bucket.steps=1000000"); err != nil {
		report.Failed("exact-steps", err)
	} else {
		report.Verdict("exact-steps",
			fmt.Sprintf("%s steps, 0 differences, %s of %s random bands refused", found[1], found[2], found[3]),
			"0 differences", true)
	}
	histories := regexp.MustCompile(`(\d+) histories conform`)
	if found, err := bucketTest("TestSettle_NoIntervalAboveLimit_NoRace", histories); err != nil {
		report.Failed("exact-histories", err)
	} else {
		report.Verdict("exact-histories", found[1]+" histories conform", "20000", found[1] == "20000")
	}
}

// bucketTest runs a test of the arithmetic and finds what it has logged. A
// test that fails is an error with what it says.
func bucketTest(name string, wanted *regexp.Regexp, flags ...string) ([]string, error) {
	text, err := output("go", append([]string{"test", "github.com/fluxgate/fluxgate/internal/bucket", "-count=1", "-v", "-run=^" + name + "$"}, flags...)...)
	if err != nil {
		return nil, err
	}
	found := wanted.FindStringSubmatch(text)
	if found == nil {
		return nil, errors.New(name + " no longer says what it did")
	}
	return found, nil
}

// output is what a command prints.
func output(name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...) //nolint:gosec // the arguments are the ones written here
	text, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", command, err, text)
	}
	return string(text), nil
}
