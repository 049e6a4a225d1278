package fluxgate

import (
	"context"
	"errors"
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

// The end of a rule is seen by the time of each request, also if the clock steps back: nothing is
// compiled when it passes.
func TestCompiled_AtAnEnd(t *testing.T) {
	now := time.Unix(1_000, 0)
	clock := Must(memstore.New(memstore.Config{Clock: func() time.Time { return now }}))
	set := Must(rules.NewSet("s", rules.Rule{ID: "r", Until: now.Add(time.Second), Bands: []rules.Band{rules.PerSecond(1)}}))
	c := Must(Compile(set))
	for _, at := range []struct {
		after time.Duration
		rules int
	}{{0, 1}, {time.Second - time.Microsecond, 1}, {time.Second, 0}, {time.Hour, 0}, {2 * time.Second, 0}, {0, 1}} {
		now = time.Unix(1_000, 0).Add(at.after)
		s := c.at(clock)
		if s.Compiled != c || len(s.match(&Request{}, nil).Rules) != at.rules || s.ended(c.active[0].Rule) != (at.rules == 0) {
			t.Errorf("after %v the set is another one, or its rule has another end", at.after)
		}
		if _, err := s.find("r"); errors.Is(err, ErrNoBucket) != (at.rules == 0) {
			t.Errorf("after %v: %v", at.after, err)
		}
	}
}
