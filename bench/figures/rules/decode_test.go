package rules_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/rules"
)

// largest is a rule set of as many rules as there may be, of the usual kind.
func largest(t *testing.T) *rules.Set {
	t.Helper()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := make([]rules.Rule, rules.MaxRules)
	for i := range all {
		all[i] = rules.Rule{
			ID: fmt.Sprintf("rule-%d", i), Paths: []string{fmt.Sprintf("/api/v1/service-%d/*/items/**", i)}, Methods: []string{"GET"},
			Scope: rules.ScopeIP, Priority: i % 10, CreatedAt: created, UpdatedAt: created,
			Bands: []rules.Band{
				{Label: "per-second", Capacity: 100, Refill: time.Second}, {Label: "per-minute", Capacity: 1000, Refill: time.Minute},
			},
			Attributes: map[string]any{"tenant": "enterprise", "tier": "premium"},
		}
	}
	set, err := rules.NewSet("largest", all...)
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
		if _, err := rules.Parse(text); err != nil {
			t.Fatal(err)
		}
		return float64(time.Since(start)) / float64(control)
	})
	t.Logf("%d rules of %d bytes in all", rules.MaxRules, len(text))
	report.AtMost("rules-10000-decoded-validated-compiled-vs-json", ratio, 6, "×")
}
