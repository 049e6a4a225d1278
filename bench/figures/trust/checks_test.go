package trust_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/bench/clone"
	"github.com/fluxgate/fluxgate/bench/figure"
)

// checks measures how long a contributor waits for the checks, and whether all figures still
// run. The machine must be idle.
func checks(t *testing.T, report *figure.Report) {
	c, err := clone.New(t.Context(), "../../..")
	if err != nil {
		report.Failed("trust-check-minutes", err)
		return
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, f := range []struct {
		name, commands string
		perMinute, bar float64
		unit           string
	}{
		{"trust-check-minutes", "make check", 1, 15, " min"},
		{"trust-check-warm-minutes", "go clean -testcache && make check", 1, 8, " min"},
		{"", "go test -short -run '^$' ./...", 0, 0, ""}, // compiles
		{"trust-quick-s", "make quick", 60, 60, " s"},
	} {
		minutes, _, err := c.Minutes(t.Context(), f.commands)
		switch {
		case err != nil:
			report.Failed(f.name, err)
		case f.bar > 0:
			report.AtMost(f.name, f.perMinute*minutes, f.bar, f.unit)
		}
	}
	smoke(t, report, c)
}

// smoke counts the figures that run.
func smoke(t *testing.T, report *figure.Report, c *clone.Clone) {
	const name = "trust-figures-smoke"
	folders, err := os.ReadDir("..")
	if err == nil {
		var output string
		if _, output, err = c.Minutes(t.Context(), "make figures-smoke"); err == nil {
			ran := strings.Count("\n"+output, "\nok ")
			report.Verdict(name, fmt.Sprintf("%d of %d", ran, len(folders)), "all", ran == len(folders))
			return
		}
	}
	report.Failed(name, err)
}
