package middleware_test

import (
	"testing"
	"testing/synctest"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/middleware"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// Money reads as money and tokens as tokens. What is left never looks enough.
func TestDetail_Measures(t *testing.T) {
	for name, test := range map[string]struct {
		measure             string
		capacity            int64
		first, actual, next int64
		want                string
	}{
		"money":               {"usd", 500_000_000, 487_600_000, 0, 12_400_001, "r.day has $12.40 of $500.00 left, and the request costs $12.41. Try again in 86400s."},
		"little money":        {"eur", 1_000_000, 990_001, 0, 115_000, "r.day has €0.00999 of €1.00 left, and the request costs €0.115. Try again in 86400s."},
		"money is owed":       {"usd", 1_000_000, 1, 1_012_345, 1, "r.day owes $0.0124, and the request costs $0.000001. Try again in 86400s."},
		"tokens":              {"tokens", 200_000, 184_010, 0, 16_000, "r.day has 15.9k of 200k tokens left, and the request costs 16k. Try again in 86400s."},
		"tokens are owed":     {"tokens", 20_000, 1, 32_400, 1, "r.day owes 12.4k tokens, and the request costs 1. Try again in 86400s."},
		"requests":            {"requests", 20_000, 20_000, 0, 1, "r.day has 0 of 20000 left, and the request costs 1. Try again in 86400s."},
		"one request is owed": {"requests", 1, 1, 2, 1, "r.day owes 1 token, and the request costs 1. Try again in 172800s."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rule := rules.Rule{ID: "r", Cost: test.measure, Bands: []rules.Band{{Label: "day", Kind: rules.Quota, Capacity: test.capacity, Period: "day"}}}
				set := fluxgate.Must(rules.NewSet("s", rule))
				buckets := fluxgate.Must(memstore.New(memstore.Config{}))
				defer func() { _ = buckets.Close() }()
				engine := fluxgate.Must(fluxgate.New(buckets, fluxgate.Static(set)))
				request := func(cost int64) *fluxgate.Request {
					if test.measure == rules.MeasureRequests {
						return &fluxgate.Request{RuleSet: "s", Cost: cost}
					}
					return &fluxgate.Request{RuleSet: "s", Costs: map[string]int64{test.measure: cost}}
				}
				if test.first > 0 {
					d := fluxgate.Must(engine.Check(t.Context(), request(test.first)))
					if test.actual > 0 {
						usage := fluxgate.Usage{Costs: map[string]int64{test.measure: test.actual}}
						if _, err := engine.SettleUsage(t.Context(), d.Receipt(), &usage); err != nil {
							t.Fatal(err)
						}
					}
				}
				d := fluxgate.Must(engine.Check(t.Context(), request(test.next)))
				if got := middleware.Detail(&d); got != test.want {
					t.Errorf("%s\nwant\n%s", got, test.want)
				}
			})
		})
	}
}
