package rules_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// hundred is a rule set of a hundred rules. All its bands have one capacity, so
// that a decision shows which version made it.
func hundred(t *testing.T, capacity int64) *rules.Set {
	t.Helper()
	all := make([]rules.Rule, 100)
	for i := range all {
		path := fmt.Sprintf("/service-%d/**", i/3)
		if i < 3 {
			path = "/api/**"
		}
		all[i] = rules.Rule{
			ID: fmt.Sprint("rule-", i), Paths: []string{path}, Scope: rules.ScopeUser,
			Bands: []rules.Band{{Label: "a", Capacity: capacity, Refill: time.Millisecond}, {Label: "b", Capacity: capacity, Refill: time.Second}},
		}
	}
	set, err := rules.NewSet("hundred", all...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// reloading decides at full load, in turns with and without a new version of
// the rules every 100 ms, ten seconds of each.
func reloading(t *testing.T, report *figure.Report) {
	t.Helper()
	server := testenv.StartStandalone(t, testenv.Config{})
	source, err := redisrules.New(newClient(t, server.Addr()), redisrules.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const least = 1_000_000
	capacity := int64(least)
	change := rules.Change{Author: "figures"}
	replace := func() {
		capacity++
		if change.Base, err = source.Put(t.Context(), hundred(t, capacity), change); err != nil {
			t.Fatal(err)
		}
	}
	replace()
	gateway, err := reload.Start(t.Context(), source, reload.Config{
		RuleSets: []string{"hundred"}, Interval: 20 * time.Millisecond, Jitter: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gateway.Close() }()
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	defer func() { _ = store.Close() }()
	engine := fluxgate.Must(fluxgate.New(store, gateway, fluxgate.WithRuleSet("hundred")))

	var wrong, versions atomic.Int64
	load := func(reloads bool) (perSecond float64) {
		var decided atomic.Int64
		var callers sync.WaitGroup
		var stop atomic.Bool
		for caller := range 2 {
			callers.Go(func() {
				req := fluxgate.Request{Path: "/api/orders", Method: "GET"}
				n, last := 0, int64(0)
				for ; !stop.Load(); n++ {
					req.UserID = users[(n*2+caller)%len(users)]
					d, err := engine.Check(t.Context(), &req)
					if err != nil || !d.Allowed || !whole(&d) {
						wrong.Add(1)
					}
					if d.Limit != last {
						last = d.Limit
						versions.Add(1)
					}
				}
				decided.Add(int64(n))
			})
		}
		start := time.Now()
		for range figure.Rounds(10) {
			if reloads {
				replace()
			}
			time.Sleep(100 * time.Millisecond)
		}
		stop.Store(true)
		callers.Wait()
		return float64(decided.Load()) / time.Since(start).Seconds()
	}
	load(true)
	ratio := figure.Median(10, func() float64 { return load(true) / load(false) })
	report.AtLeast("rules-throughput-while-reloading", ratio, 0.9, "×")
	report.AtMost("rules-decisions-wrong-or-under-two-revisions", float64(wrong.Load()), 0, "")
	report.AtLeast("rules-swaps-under-load", float64(gateway.Stats().Swaps), 100, "")
}

var users = func() (names [512]string) {
	for i := range names {
		names[i] = fmt.Sprint("user-", i)
	}
	return names
}()

// whole reports whether all bands of a decision are of one version.
func whole(d *fluxgate.Decision) bool {
	bands := 0
	for b := range d.Bands() {
		bands++
		if b.Limit != d.Limit {
			return false
		}
	}
	return bands == 6
}
