package reload_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
)

// Every decision uses rules of one revision. The test replaces a hundred rules
// under load. All rules of a version have the same capacity, so that a decision
// shows its version.
func TestSwap_OneRevision(t *testing.T) {
	source := newStubSource()
	version := func(capacity int64) *rules.Set {
		all := make([]rules.Rule, 100)
		for i := range all {
			all[i] = rules.Rule{
				ID: fmt.Sprint("rule-", i), Paths: []string{fmt.Sprintf("/%d/**", i%40), "/all"}[:1+i%2], Scope: rules.ScopeIP,
				Bands: []rules.Band{{Label: "a", Capacity: capacity, Refill: 2 * time.Millisecond}, {Label: "b", Capacity: capacity, Refill: time.Millisecond}},
			}
		}
		set, err := rules.NewSet("set", all...)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	revision, err := source.Put(t.Context(), version(1_000_000), rules.Change{Author: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: 10 * time.Millisecond, Jitter: -1})
	engine, err := fluxgate.New(newStore(t), r, fluxgate.WithRuleSet("set"))
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var decisions atomic.Int64
	var seen sync.Map
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for !stop.Load() {
				d, err := engine.Check(t.Context(), &fluxgate.Request{Path: "/all"})
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
					return
				}
				bands := 0
				for b := range d.Bands() {
					bands++
					if b.Limit != d.Limit {
						t.Errorf("a decision was made under limits %d and %d", b.Limit, d.Limit)
					}
				}
				if bands != 100 {
					t.Errorf("the decision has %d bands", bands)
				}
				seen.Store(d.Limit, true)
				decisions.Add(1)
			}
		})
	}
	for i := range int64(20) {
		revision, err = source.Put(t.Context(), version(1_000_001+i), rules.Change{Author: "tester", Base: revision})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the version is in effect", func() bool { return status(t, r, "set").Revision == revision })
		now := decisions.Load()
		until(t, "it has made decisions", func() bool { return decisions.Load() > now || stop.Load() })
	}
	stop.Store(true)
	callers.Wait()
	versions := 0
	seen.Range(func(any, any) bool { versions++; return true })
	t.Logf("%d decisions under %d versions", decisions.Load(), versions)
	if versions < 10 {
		t.Errorf("decisions were made under %d versions only", versions)
	}
}
