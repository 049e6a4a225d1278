package memstore_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// A store for one process that remembers at most 100,000 callers.
func ExampleNew() {
	store, err := memstore.New(memstore.Config{MaxBuckets: 100_000})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rules.NewSet("api", rules.Rule{
		ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerHour(2)},
	})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet("api"))
	if err != nil {
		log.Fatal(err)
	}

	for _, ip := range []string{"192.0.2.7", "192.0.2.7", "192.0.2.7", "192.0.2.8"} {
		d, err := engine.Check(context.Background(), &fluxgate.Request{IP: netip.MustParseAddr(ip)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ip, d.Allowed)
	}
	fmt.Println("buckets:", store.Stats().Buckets)
	// Output:
	// 192.0.2.7 true
	// 192.0.2.7 true
	// 192.0.2.7 false
	// 192.0.2.8 true
	// buckets: 2
}
