package fluxgate

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// current is a rule set that can be replaced.
type current struct{ set *Compiled }

func (c *current) RuleSet(context.Context, string) *Compiled { return c.set }

// isFreed reports whether use calls freed in time.
func isFreed(use func(freed func())) bool {
	done := make(chan struct{}, 1)
	use(func() { done <- struct{}{} })
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		select {
		case <-done:
			return true
		case <-time.After(time.Millisecond):
		}
	}
	return false
}

// A rule set that was replaced is freed while its engine is in use.
func TestCompiled_FreedWhenReplaced(t *testing.T) {
	compile := func() *Compiled {
		return Must(Compile(Must(rules.NewSet("api", rules.Rule{ID: "r", Bands: []rules.Band{rules.PerSecond(1)}}))))
	}
	sets := &current{compile()}
	engine := Must(New(&waitSeen{seen: func() {}}, sets))
	freed := isFreed(func(freed func()) {
		runtime.AddCleanup(sets.set, func(int) { freed() }, 0)
		for range 2 {
			if d, err := engine.Check(t.Context(), &Request{}); err != nil || !d.Allowed {
				t.Fatal(d.Reason, err)
			}
			sets.set = compile()
		}
	})
	if !freed {
		t.Error("a rule set that was replaced stays in memory")
	}
	runtime.KeepAlive(engine)
}

// An engine that is no longer used is freed while its rule sets are in use.
func TestCompiled_EngineFreed(t *testing.T) {
	sets := Static(Must(rules.NewSet("api", rules.Rule{ID: "r", Bands: []rules.Band{rules.PerSecond(1)}})))
	freed := isFreed(func(freed func()) {
		engine := Must(New(&waitSeen{seen: func() {}}, sets))
		if d, err := engine.Check(t.Context(), &Request{}); err != nil || !d.Allowed {
			t.Fatal(d.Reason, err)
		}
		runtime.AddCleanup(engine, func(int) { freed() }, 0)
	})
	if !freed {
		t.Error("an engine that decided once stays in memory for as long as its rule set")
	}
	runtime.KeepAlive(sets)
}

// Requests that arrive together after a change of the rules share the keys of one salt, and
// stores with different salts have different ones.
func TestCompiled_KeyedOnce(t *testing.T) {
	all := make([]rules.Rule, rules.MaxRules)
	for i := range all {
		all[i] = rules.Rule{ID: fmt.Sprint("r", i), Paths: []string{fmt.Sprint("/", i)}, Bands: []rules.Band{rules.PerSecond(1)}}
	}
	set := Must(Compile(Must(rules.NewSet("api", all...))))
	keyed := make([]*keyedRule, 20)
	var requests sync.WaitGroup
	for i := range keyed {
		requests.Go(func() { keyed[i] = &set.keyedBy([]byte{byte(i % 2)})[0] })
	}
	requests.Wait()
	for i := range keyed {
		if keyed[i] != keyed[i%2] {
			t.Errorf("request %d has made the keys of its salt again", i)
		}
	}
	if keyed[0].prefix == keyed[1].prefix || keyed[0].compiledRule != keyed[1].compiledRule {
		t.Error("two salts have the same keys, or rules of their own")
	}
}

// A rule set is compiled once after the end of a rule, also if the clock steps back a little: the
// nodes of a cluster have different clocks.
func TestCompiled_AtAnEnd(t *testing.T) {
	now := time.Unix(1_000, 0)
	clock := Must(memstore.New(memstore.Config{Clock: func() time.Time { return now }}))
	set := Must(rules.NewSet("s", rules.Rule{ID: "r", Until: now.Add(time.Second), Bands: []rules.Band{rules.PerSecond(1)}}))
	c := Must(Compile(set))
	at := func(after time.Duration) *Compiled {
		now = time.Unix(1_000, 0).Add(after)
		return c.at(clock)
	}
	if at(0) != c || at(999*time.Millisecond) != c {
		t.Error("the rule ends early")
	}
	later := at(5 * time.Second)
	if later == c || len(later.active) != 0 {
		t.Error("the rule does not end")
	}
	if at(2*time.Second) != later || at(time.Second) != later || at(time.Hour) != later {
		t.Error("it is compiled again")
	}
	if at(0) != c {
		t.Error("a clock that steps back is not followed")
	}
}
