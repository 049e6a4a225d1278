package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// useUp resets rules of a rule set, each once, until that is refused.
func useUp(t *testing.T, p probe, ruleSet string) error {
	t.Helper()
	for i := range 10_001 {
		if _, err := p.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: ruleSet, Rule: fmt.Sprint("rule-", i)}}); err != nil {
			return err
		}
	}
	t.Fatal("resets are not bounded")
	return nil
}

// A rule set with as many rule resets as possible is refused more, with the
// reason, and does not affect another.
func TestReset_BoundIsPerRuleSet(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	err := useUp(t, p, "tenant-a")
	if !errors.Is(err, store.ErrTooManyResets) || !strings.Contains(err.Error(), `1000 rules of rule set "tenant-a"`) || errors.Is(err, ErrUnavailable) {
		t.Errorf("one more: %v", err)
	}
	// One whose rules are deleted has room again.
	if err := useUp(t, p, "tenant-c"); !errors.Is(err, store.ErrTooManyResets) {
		t.Error(err)
	}
	more := store.Reset{Key: store.Key{RuleSet: "tenant-c", Rule: "one-more"}, Exists: func(rule string) bool { return rule != "rule-3" }}
	if did, err := p.Reset(t.Context(), more); !did || err != nil {
		t.Errorf("one more for a deleted rule: %t, %v", did, err)
	}
	if err := useUp(t, p, "tenant-c"); !errors.Is(err, store.ErrTooManyResets) {
		t.Errorf("one more, and none deleted: %v", err)
	}
	for _, what := range []store.Key{
		{RuleSet: "tenant-b", Rule: "rule"}, {RuleSet: "tenant-b"}, {RuleSet: "tenant-a", Rule: "rule-7"}, {RuleSet: "tenant-a"}, {RuleSet: "tenant-a", Rule: "one-more"},
	} {
		if _, err := p.Reset(t.Context(), store.Reset{Key: what}); err != nil {
			t.Errorf("a reset of %v: %v", what, err)
		}
	}
	// The reset of the whole rule set has made room.
	fields, err := server.Do(t.Context(), "HLEN", p.names.fleet())
	if err != nil || fields.(int64) > 1_020 {
		t.Errorf("the fleet state has %v fields (%v)", fields, err)
	}
}

// The reset of a rule set is one of all of its rules, also of those that were
// reset before, after and by other gateways.
func TestReset_RuleSetAfterRules(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	const refresh = 20 * time.Millisecond
	here, there := newProbe(t, openStore(t, server.URI(), Config{Refresh: refresh})), newProbe(t, openStore(t, server.URI(), Config{Refresh: refresh}))
	there.ruleSet = here.ruleSet
	a, b := here.demand("a", 3, year), here.demand("b", 3, year)
	for round, what := range []store.Key{
		{RuleSet: here.ruleSet, Rule: "a"}, {RuleSet: here.ruleSet}, {RuleSet: here.ruleSet}, {RuleSet: here.ruleSet, Rule: "a"}, {RuleSet: here.ruleSet, Rule: "a"}, {RuleSet: here.ruleSet},
	} {
		here.take(a)
		here.take(b)
		if here.left(a) != 0 || here.left(b) != 0 {
			t.Fatalf("round %d begins with %d and %d tokens", round, here.left(a), here.left(b))
		}
		if _, err := []probe{here, there}[round%2].Reset(t.Context(), store.Reset{Key: what}); err != nil {
			t.Fatal(err)
		}
		for _, p := range []probe{here, there} {
			until(t, "the reset is seen", func() bool { return p.left(a) == 3 && (what.Rule != "" || p.left(b) == 3) })
			if what.Rule == "a" && p.left(b) != 0 {
				t.Errorf("round %d: rule b has %d tokens", round, p.left(b))
			}
		}
		if what.Rule == "a" { // as in the next round
			if _, err := here.Reset(t.Context(), store.Reset{Key: b.Key}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Resets of deleted rules are forgotten by all gateways, those of others are
// not, and a flush restores none of them.
func TestReset_ForgetsRulesThatAreGone(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	const refresh = 20 * time.Millisecond
	here, there := newProbe(t, openStore(t, server.URI(), Config{Refresh: refresh})), newProbe(t, openStore(t, server.URI(), Config{Refresh: refresh}))
	set := here.ruleSet
	for _, rule := range []string{"gone", "stays"} {
		if _, err := here.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: set, Rule: rule}}); err != nil {
			t.Fatal(err)
		}
	}
	if did, err := here.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: set, Rule: "gone"}, Mark: "mark"}); !did || err != nil {
		t.Fatal(did, err)
	}
	gone, stays := resetField(set, "gone"), resetField(set, "stays")
	first := here.fleet.generations()[gone]
	until(t, "the other gateway sees the resets", func() bool { return there.fleet.generations()[gone] == first })
	exists := func(rule string) bool { return rule == "stays" }
	if err := here.forgetDeleted(t.Context(), &store.Reset{Key: store.Key{RuleSet: set}, Exists: exists}); err != nil {
		t.Fatal(err)
	}
	known := func(p probe) bool {
		g := p.fleet.generations()
		return g[gone] == 0 && g[stays] > 0
	}
	inRecord := func(field string) bool {
		reply, err := server.Do(t.Context(), "HEXISTS", here.names.fleet(), field)
		return err == nil && reply == int64(1)
	}
	until(t, "the other gateway has forgotten it", func() bool { return known(there) })
	if !known(here) || inRecord(gone) || inRecord("mark/"+gone) || !inRecord(stays) {
		t.Errorf("after it was forgotten: %v", here.fleet.generations())
	}
	if _, err := server.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	until(t, "what was lost is back", func() bool { return inRecord(stays) })
	for _, p := range []probe{here, there} {
		if err := p.fleet.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !known(here) || !known(there) || inRecord(gone) {
		t.Errorf("after a flush: %v", here.fleet.generations())
	}
	// A rule that is added again and reset has new buckets.
	if _, err := there.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: set, Rule: "gone"}}); err != nil {
		t.Fatal(err)
	}
	if again := there.fleet.generations()[gone]; again <= first {
		t.Errorf("it was reset to %d and then to %d", first, again)
	}
}
