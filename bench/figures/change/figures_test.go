// Package change_test measures what makes changes of rules safe: see make figures-change.
package change_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/rules"
)

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	t.Run("lint", func(t *testing.T) { lint(t, report) })
}

// lint reads a rule set as a whole: endpoints with three plans each, tenants, and a rule for all.
func lint(t *testing.T, report *figure.Report) {
	set, err := rules.NewSet("api", list(figure.Some(rules.MaxRules))...)
	if err != nil {
		t.Fatal(err)
	}
	report.AtMost("change-lint-10000-s", figure.Median(5, func() float64 {
		began := time.Now()
		found := set.Warnings()
		took := time.Since(began).Seconds()
		if len(found.List) != 1 || found.Uncompared > 0 { // the rule that was put there
			t.Fatalf("%+v", found)
		}
		return took
	}), 2, " s")
}

func list(n int) []rules.Rule {
	all := []rules.Rule{
		{ID: "all", Scope: rules.ScopeIP, Priority: -1, Bands: []rules.Band{rules.PerSecond(1_000)}},
		{ID: "health", Paths: []string{"/health"}, Action: rules.ActionAllow, Priority: 100},
		{ID: "never", Paths: []string{"/health"}, Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerSecond(1)}},
	}
	plan := func(i int, tier string, priority int, rate int64) rules.Rule {
		r := rules.Rule{
			ID: fmt.Sprint("plan-", tier, i), Group: fmt.Sprint("plan", i), Priority: priority, Scope: rules.ScopeUser,
			Paths: []string{fmt.Sprintf("/api/v%d/resource%d/*/items/**", i%3, i)}, Methods: []string{"GET", "POST"},
			Bands: []rules.Band{rules.PerSecond(rate), rules.PerHour(100 * rate)},
		}
		if tier != "" {
			r.When.Attributes = map[string][]string{"tier": {tier}}
		}
		return r
	}
	for i := 0; len(all) < n; i++ {
		all = append(all, plan(i, "", 0, 10), plan(i, "basic", 10, 20), plan(i, "premium", 20, 50), rules.Rule{
			ID: fmt.Sprint("tenant", i), Paths: []string{"/tenants/**"}, Scope: rules.ScopeIP,
			When: rules.When{Attributes: map[string][]string{"tenant": {fmt.Sprint("t", i)}}}, Bands: []rules.Band{rules.PerMinute(int64(100 + i))},
		})
	}
	return all[:n]
}
