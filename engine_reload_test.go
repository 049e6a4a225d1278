package fluxgate_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// Two versions of a rule are swapped while callers empty its bucket. A token is
// 1/1,000 of the bucket in one version and 1/400 in the other, and together no
// more than one bucket is handed out.
func TestReload_RuleChangeIsNotARefill(t *testing.T) {
	const large, small = 1_000, 400
	versions := []*rules.Set{
		ruleSet(t, rule("r", 0, large), rule("other", 1, 1_000_000)), ruleSet(t, rule("r", 0, small)),
	}
	var sets replaceable
	sets.use(versions[0])
	engine, err := fluxgate.New(newStore(t, storetest.NewClock().Now), &sets)
	if err != nil {
		t.Fatal(err)
	}
	var passed [2]atomic.Int64
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for i := range 1_000 {
				if i%5 == caller {
					sets.use(versions[i/5%2])
				}
				d, err := engine.Check(t.Context(), &fluxgate.Request{})
				switch {
				case err != nil:
					t.Error(err)
				case !d.Allowed:
				case d.Limit == large:
					passed[0].Add(1)
				default:
					passed[1].Add(1)
				}
			}
		})
	}
	callers.Wait()
	// In parts of 2,000: two for a token of the one, five for one of the other.
	parts := 2*passed[0].Load() + 5*passed[1].Load()
	if parts > 2_000 || parts < 2_000-10 {
		t.Errorf("%d of 2,000 parts of one bucket were handed out", parts)
	}
	if passed[0].Load() == 0 || passed[1].Load() == 0 {
		t.Errorf("%d passed by the one version and %d by the other: the test shows nothing", passed[0].Load(), passed[1].Load())
	}
}

// The next request after a reload uses the new rule set.
func TestReload_Immediate(t *testing.T) {
	var sets replaceable
	engine, err := fluxgate.New(newStore(t, nil), &sets)
	if err != nil {
		t.Fatal(err)
	}
	for i, set := range []*rules.Set{
		nil, ruleSet(t, rule("first", 0, 5)), ruleSet(t, rule("second", 0, 5)), ruleSet(t), nil,
	} {
		sets.use(set)
		d := check(t, engine, fluxgate.Request{})
		if want := []string{"", "first", "second", "", ""}[i]; d.RuleID != want {
			t.Errorf("version %d: rule %q binds, want %q", i, d.RuleID, want)
		}
	}
}

// Buckets are kept with more rule sets than the engine caches plans for.
func TestReload_ManyRuleSets(t *testing.T) {
	const count = 1_100
	sets := make([]*rules.Set, count)
	for i := range sets {
		set, err := rules.NewSet(fmt.Sprint("set-", i), rule("r", 0, 2))
		if err != nil {
			t.Fatal(err)
		}
		sets[i] = set
	}
	engine, err := fluxgate.New(newStore(t, nil), fluxgate.Static(sets...))
	if err != nil {
		t.Fatal(err)
	}
	for round, want := range []bool{true, true, false} {
		for _, set := range sets {
			if d := check(t, engine, fluxgate.Request{RuleSet: set.ID()}); d.Allowed != want {
				t.Fatalf("round %d, %s: allowed %t, want %t", round, set.ID(), d.Allowed, want)
			}
		}
	}
}
