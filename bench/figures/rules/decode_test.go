package rules_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
)

// largest is a rule set of as many rules as there may be, of the usual kind.
func largest(t *testing.T) *fluxgate.RuleSet {
	t.Helper()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := make([]fluxgate.Rule, fluxgate.MaxRules)
	for i := range all {
		all[i] = fluxgate.Rule{
			ID: fmt.Sprintf("rule-%d", i), Paths: []string{fmt.Sprintf("/api/v1/service-%d/*/items/**", i)}, Methods: []string{"GET"},
			Scope: fluxgate.ScopeIP, Priority: i % 10, CreatedAt: created, UpdatedAt: created,
			Bands: []fluxgate.Band{
				{Label: "per-second", Capacity: 100, Refill: time.Second}, {Label: "per-minute", Capacity: 1000, Refill: time.Minute},
			},
			Attributes: map[string]any{"tenant": "enterprise", "tier": "premium"},
		}
	}
	set, err := fluxgate.NewRuleSet("largest", all...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// decoding compares reading, validating and compiling a rule set with what
// encoding/json takes to read the same bytes.
func decoding(t *testing.T, report *figure.Report) {
	t.Helper()
	text, err := json.Marshal(largest(t))
	if err != nil {
		t.Fatal(err)
	}
	ratio := figure.Median(15, func() float64 {
		start := time.Now()
		var tree any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		control := time.Since(start)
		start = time.Now()
		if _, err := fluxgate.ParseRuleSet(text); err != nil {
			t.Fatal(err)
		}
		return float64(time.Since(start)) / float64(control)
	})
	t.Logf("%d rules of %d bytes in all", fluxgate.MaxRules, len(text))
	report.AtMost("rules-10000-decoded-validated-compiled-vs-json", ratio, 6, "×")
}
