package fluxgate

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// current is a rule set that can be replaced.
type current struct{ set *RuleSet }

func (c *current) RuleSet(context.Context, string) *RuleSet { return c.set }

// A rule set that was replaced is freed, and its plan with it.
func TestPlan_FreedWithRuleSet(t *testing.T) {
	store := &waitSeen{seen: func() {}}
	rules := new(current)
	engine := Must(New(store, rules))
	for range 100 {
		rules.set = Must(NewRuleSet("api", Rule{ID: "r", Bands: []Band{PerSecond(1)}}))
		if d, err := engine.Check(t.Context(), &Request{}); err != nil || !d.Allowed {
			t.Fatal(d.Reason, err)
		}
	}
	plans := 0
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		plans = 0
		engine.plans.Range(func(any, any) bool { plans++; return true })
		if plans == 1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("the engine keeps the plans of %d rule sets, of which one is in use", plans)
}

// An engine that is no longer used is freed, and its rule sets with it.
func TestPlan_EngineFreed(t *testing.T) {
	freed := make(chan struct{}, 1)
	func() {
		set := Must(NewRuleSet("api", Rule{ID: "r", Bands: []Band{PerSecond(1)}}))
		engine := Must(New(&waitSeen{seen: func() {}}, Static(set)))
		if d, err := engine.Check(t.Context(), &Request{}); err != nil || !d.Allowed {
			t.Fatal(d.Reason, err)
		}
		runtime.AddCleanup(engine, func(int) { freed <- struct{}{} }, 0)
	}()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("an engine that decided once stays in memory for as long as the process runs")
}

// saltCounter counts how often a plan is made.
type saltCounter struct {
	waitSeen
	plans atomic.Int64
}

func (s *saltCounter) Salt() []byte {
	s.plans.Add(1)
	return nil
}

// Requests that arrive together after a change of the rules share one plan.
func TestPlan_MadeOnce(t *testing.T) {
	rules := make([]Rule, MaxRules)
	for i := range rules {
		rules[i] = Rule{ID: fmt.Sprint("r", i), Paths: []string{fmt.Sprint("/", i)}, Bands: []Band{PerSecond(1)}}
	}
	store := &saltCounter{waitSeen: waitSeen{seen: func() {}}}
	engine := Must(New(store, Static(Must(NewRuleSet("api", rules...)))))
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() {
			if d, err := engine.Check(t.Context(), &Request{Path: "/1"}); err != nil || d.RuleID != "r1" {
				t.Errorf("decided by %q, %v", d.RuleID, err)
			}
		})
	}
	requests.Wait()
	if n := store.plans.Load(); n != 1 {
		t.Errorf("20 requests have made %d plans, want 1", n)
	}
}
