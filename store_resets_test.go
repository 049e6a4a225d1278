package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// changing is one rule set that changes.
type changing struct{ now *fluxgate.RuleSet }

func (c *changing) RuleSet(_ context.Context, id string) *fluxgate.Compiled {
	if c.now.ID() == id {
		return compile(c.now)
	}
	return nil
}

// numberedRules is a rule set of n rules, numbered from a number on.
func numberedRules(from, n int) *fluxgate.RuleSet {
	var all []fluxgate.Rule
	for i := range n {
		all = append(all, fluxgate.Rule{ID: fmt.Sprint("rule-", from+i), Bands: []fluxgate.Band{fluxgate.PerMinute(1)}})
	}
	return fluxgate.Must(fluxgate.NewRuleSet("tenant", all...))
}

// Resets of deleted rules are forgotten if there is no room for others.
func TestReset_ForgetsRulesThatAreGone(t *testing.T) {
	sets := &changing{numberedRules(0, 1_000)}
	store, fallback := fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(store, sets, fluxgate.WithFallback(fallback, 1)))
	reset := func(i int) error {
		return engine.Reset(t.Context(), fluxgate.Key{RuleSet: "tenant", Rule: fmt.Sprint("rule-", i)})
	}
	for i := range 1_000 {
		if err := reset(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := reset(1_000); !errors.Is(err, fluxgate.ErrTooManyResets) {
		t.Errorf("one more while all are there: %v", err)
	}
	sets.now = numberedRules(1, 1_000)
	if err := reset(1_000); err != nil {
		t.Errorf("one more while one is gone: %v", err)
	}
	if err := reset(1_001); !errors.Is(err, fluxgate.ErrTooManyResets) {
		t.Errorf("and one more: %v", err)
	}
}
