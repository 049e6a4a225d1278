package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// changing is one rule set that changes.
type changing struct{ now *fluxgate.Compiled }

func (c *changing) RuleSet(_ context.Context, id string) *fluxgate.Compiled {
	if c.now.ID() == id {
		return c.now
	}
	return nil
}

// numberedRules is a rule set of n rules, numbered from a number on.
func numberedRules(from, n int) *fluxgate.Compiled {
	var all []rules.Rule
	for i := range n {
		all = append(all, rules.Rule{ID: fmt.Sprint("rule-", from+i), Bands: []rules.Band{rules.PerMinute(1)}})
	}
	return compile(fluxgate.Must(rules.NewSet("tenant", all...)))
}

// Resets of deleted rules are forgotten if there is no room for others.
func TestReset_ForgetsRulesThatAreGone(t *testing.T) {
	sets := &changing{numberedRules(0, 1_000)}
	buckets, fallback := fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(buckets, sets, fluxgate.WithFallback(fallback), fluxgate.WithFallbackShare(1)))
	reset := func(i int) error {
		return engine.Reset(t.Context(), store.Key{RuleSet: "tenant", Rule: fmt.Sprint("rule-", i)})
	}
	for i := range 1_000 {
		if err := reset(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := reset(1_000); !errors.Is(err, store.ErrTooManyResets) {
		t.Errorf("one more while all are there: %v", err)
	}
	sets.now = numberedRules(1, 1_000)
	if err := reset(1_000); err != nil {
		t.Errorf("one more while one is gone: %v", err)
	}
	if err := reset(1_001); !errors.Is(err, store.ErrTooManyResets) {
		t.Errorf("and one more: %v", err)
	}
}
