// Package customers_test measures overrides for single customers, and rules for
// single customers beside them: see make figures-customers.
package customers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	lookup(t, report)
	memory(t, report)
	changing(t, report)
	writing(t, report)
	rulesInstead(t, report)
}

// customers is the number of overrides.
func customers() int { return figure.Some(100_000) }

// plenty is a band that nothing here empties.
var plenty = rules.Band{Label: "hourly", Capacity: 100_000_000, RefillTokens: 1_000, Refill: time.Hour}

// standard is the rule whose numbers are replaced.
func standard(t testing.TB) *rules.Set {
	t.Helper()
	return fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "standard", Scope: rules.ScopeUser, Bands: []rules.Band{plenty}}))
}

func customer(i int) string { return fmt.Sprintf("customer-%d", i) }

// overrides are those of customers from the first to before the last: nine of ten
// have times, one has its own bands. Their numbers differ by the variant.
func overrides(first, last, variant int) []rules.Override {
	all := make([]rules.Override, 0, last-first)
	for i := first; i < last; i++ {
		o := rules.Override{
			RuleSetID: "api", RuleID: "standard", Identity: map[string]string{"userId": customer(i)},
			Until: time.Date(2099, 1, 1, 0, 0, i, 0, time.UTC), Reason: "contract", Author: "figures",
		}
		if i%10 == 0 {
			own := plenty
			own.Capacity += int64(i + 1 + variant)
			o.Bands = []rules.Band{own}
		} else {
			o.Times = rules.Times(2_000 + i%50*100 + variant)
		}
		all = append(all, o)
	}
	return all
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
