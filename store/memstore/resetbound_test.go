package memstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// A rule set with as many rule resets as possible is refused more, with the
// reason, and does not affect another.
func TestReset_BoundIsPerRuleSet(t *testing.T) {
	s := fluxgate.Must(memstore.New(memstore.Config{}))
	reset := func(ruleSet, rule string) error {
		_, err := s.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: ruleSet, Rule: rule}})
		return err
	}
	var err error
	for i := 0; err == nil && i < 200_000; i++ {
		err = reset("tenant-a", fmt.Sprint("rule-", i))
	}
	if !errors.Is(err, store.ErrTooManyResets) || !strings.Contains(err.Error(), `1000 rules of rule set "tenant-a"`) {
		t.Errorf("one more: %v", err)
	}
	for _, what := range [][2]string{{"tenant-b", "rule"}, {"tenant-b", ""}, {"tenant-a", "rule-7"}, {"tenant-a", ""}, {"tenant-a", "one-more"}} {
		if err := reset(what[0], what[1]); err != nil {
			t.Errorf("a reset of %q: %v", what, err)
		}
	}
}

// A reset makes buckets full, whatever was reset or forgotten before.
func TestReset_AfterOthers(t *testing.T) {
	s := fluxgate.Must(memstore.New(memstore.Config{Clock: storetest.NewClock().Now}))
	bands := []store.ExactBand{fluxgate.Must(rules.Band{Capacity: 3, Refill: 24 * time.Hour}.Exact(0))}
	demand := func(rule string) store.Demand {
		return store.Demand{Key: store.Key{RuleSet: "set", Rule: rule, ID: store.KeyID{rule[0]}}, Bands: bands, Cost: 3}
	}
	left := func(rule string) int64 {
		t.Helper()
		var out store.Outcome
		if err := s.Peek(t.Context(), []store.Demand{demand(rule)}, &out); err != nil {
			t.Fatal(err)
		}
		return out.Results[0].Bands[0].Remaining
	}
	for i, what := range []string{"a", "", "", "a", "a", "", "forget", "a", "forget", "a", ""} {
		var out store.Outcome
		for _, rule := range []string{"a", "b"} {
			if err := s.Take(t.Context(), []store.Demand{demand(rule)}, &out); err != nil {
				t.Fatal(err)
			}
		}
		switch what {
		case "forget":
			// The last of these needs the room of deleted rules.
			for i := range 1_001 {
				what := store.Reset{Key: store.Key{RuleSet: "set", Rule: fmt.Sprint("deleted-", i)}, Exists: func(rule string) bool { return rule == "b" }}
				if _, err := s.Reset(t.Context(), what); err != nil {
					t.Fatal(err)
				}
			}
		default:
			if _, err := s.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "set", Rule: what}}); err != nil {
				t.Fatal(err)
			}
			if left("a") != 3 || what == "a" && left("b") != 0 || what == "" && left("b") != 3 {
				t.Errorf("after reset %d of %q there are %d and %d tokens", i, what, left("a"), left("b"))
			}
		}
	}
}
