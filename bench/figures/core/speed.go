package main

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// plenty is a band that nothing here ever empties, because an admitted request
// has the most to do, and of which a token is so slow to come back that no
// bucket is full and forgotten while it is measured.
var plenty = rules.Band{Capacity: 100_000_000, RefillTokens: 1, Refill: 10 * time.Second}

func speed(report *figure.Report) {
	control := newControl()

	store := oneKey()
	report.AtMost("memstore-one-key", figure.Ratio(store, control), 1.5, "× control")
	report.AtMost("memstore-one-key-allocs", allocations(store), 0, " allocs/op")

	engine := threeRules()
	report.AtMost("engine-three-rules", figure.Ratio(engine, control), 12, "× control")
	report.AtMost("engine-three-rules-allocs", allocations(engine), 2, " allocs/op")
}

func allocations(f func(n int)) float64 {
	return testing.AllocsPerRun(10_000, func() { f(1) })
}

// newControl is one caller of a mutex-guarded map of limiters.
func newControl() func(n int) {
	var mu sync.Mutex
	limiters := map[string]*rate.Limiter{}
	allow := func(key string) bool {
		mu.Lock()
		limiter, ok := limiters[key]
		if !ok {
			limiter = rate.NewLimiter(rate.Every(plenty.Refill), int(plenty.Capacity))
			limiters[key] = limiter
		}
		mu.Unlock()
		return limiter.Allow()
	}
	return func(n int) {
		for range n {
			if !allow("203.0.113.7") {
				panic("the control rejects")
			}
		}
	}
}

// oneKey takes from one key with one band.
func oneKey() func(n int) {
	buckets := newStore(0)
	demands := []store.Demand{newDemand()}
	demands[0].Key.ID = key(1)
	var out store.Outcome
	return func(n int) {
		for range n {
			take(buckets, demands, &out)
		}
	}
}

// threeRules checks requests to which three rules of two bands each apply.
func threeRules() func(n int) {
	bands := []rules.Band{plenty, plenty}
	set, err := rules.NewSet("api",
		rules.Rule{ID: "everyone", Scope: rules.ScopeGlobal, Bands: bands},
		rules.Rule{ID: "by-address", Paths: []string{"/api/**"}, Scope: rules.ScopeIP, Bands: bands},
		rules.Rule{ID: "by-user", Paths: []string{"/api/users/*"}, Methods: []string{"GET"},
			Scope: rules.ScopeUser, Bands: bands},
	)
	must(err)
	engine, err := fluxgate.New(newStore(0), fluxgate.Static(set), fluxgate.WithRuleSet("api"))
	must(err)
	request := &fluxgate.Request{
		IP: netip.MustParseAddr("203.0.113.7"), UserID: "user-4711",
		Method: "GET", Host: "api.example.com", Path: "/api/users/4711",
	}
	return func(n int) {
		for range n {
			decision, err := engine.Check(context.Background(), request)
			must(err)
			if decision.Reason != fluxgate.ReasonOK {
				panic(decision.Reason)
			}
		}
	}
}

func newStore(maxBuckets int) *memstore.Store {
	store, err := memstore.New(memstore.Config{MaxBuckets: maxBuckets})
	must(err)
	return store
}

func take(buckets store.Store, demands []store.Demand, out *store.Outcome) {
	must(buckets.Take(context.Background(), demands, out))
	if !out.Admitted() {
		panic("the store rejects")
	}
}
