package fluxgate_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// A hundred requests a minute for every address.
func Example() {
	set, err := rules.NewSet("api-limits", rules.Rule{
		ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)},
	})
	if err != nil {
		log.Fatal(err)
	}
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet("api-limits"))
	if err != nil {
		log.Fatal(err)
	}

	decision, err := engine.Check(context.Background(), &fluxgate.Request{
		IP: netip.MustParseAddr("192.0.2.7"), Method: "GET", Path: "/users",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("allowed: %t, %d of %d left\n", decision.Allowed, decision.Remaining, decision.Limit)
	// Output: allowed: true, 99 of 100 left
}

// A rejection names the rule and the band that bind, and when to retry. It has
// taken nothing.
func ExampleEngine_Check() {
	set, err := rules.NewSet("api-limits",
		rules.Rule{ID: "everyone", Bands: []rules.Band{rules.PerMinute(1_000)}},
		rules.Rule{
			ID: "exports", Paths: []string{"/export/**"}, Scope: rules.ScopeUser,
			Bands: []rules.Band{{Label: "hourly", Capacity: 2, Refill: time.Hour}},
		})
	if err != nil {
		log.Fatal(err)
	}
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet("api-limits"))
	if err != nil {
		log.Fatal(err)
	}

	for range 3 {
		d, err := engine.Check(context.Background(), &fluxgate.Request{UserID: "ann", Path: "/export/orders"})
		if err != nil {
			log.Fatal(err)
		}
		if !d.Allowed {
			fmt.Printf("%s by %s.%s, again in %v\n", d.Reason, d.RuleID, d.Band, d.RetryAfter.Round(time.Minute))
			for b := range d.Bands() {
				fmt.Printf("  %s.%s: %d of %d left\n", b.Rule.ID, b.Band.Name(), b.Remaining, b.Limit)
			}
		}
	}
	// Output:
	// limited by exports.hourly, again in 30m0s
	//   everyone.1000-per-1m: 998 of 1000 left
	//   exports.hourly: 0 of 2 left
}

// The cost of a request is often known only at its end: bytes, rows, model
// tokens. Take an estimate first and settle it later.
func ExampleEngine_Settle() {
	set, err := rules.NewSet("llm", rules.Rule{
		ID: "model-tokens", Scope: rules.ScopeAPIKey, Bands: []rules.Band{rules.PerDay(10_000)},
	})
	if err != nil {
		log.Fatal(err)
	}
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet("llm"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	d, err := engine.Check(ctx, &fluxgate.Request{APIKey: "secret", Cost: 4_000})
	if err != nil || !d.Allowed {
		log.Fatal("not allowed: ", err)
	}
	fmt.Println("left while it runs:", d.Remaining)

	used := int64(1_500) // as the answer says
	settled, err := engine.Settle(ctx, d.Receipt(), used)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("given back:", settled.Returned)
	// Output:
	// left while it runs: 6000
	// given back: 2500
}

// A rule set in JSON, as the admin API and files have it.
func Example_parse() {
	set, err := rules.Parse([]byte(`{"id": "api", "rules": [
		{"id": "everyone", "group": "plan", "limitScope": "USER_ID", "bands": [{"capacity": 100, "refill": "1m"}]},
		{"id": "premium", "group": "plan", "limitScope": "USER_ID", "bands": [{"capacity": 1000, "refill": "1m"}],
		 "priority": 10, "when": {"attributes": {"tier": ["premium"]}}}
	]}`))
	if err != nil {
		log.Fatal(err)
	}
	for r := range set.Rules() {
		fmt.Println(r.ID, r.Bands[0].Name())
	}
	// Output:
	// premium 1000-per-1m
	// everyone 100-per-1m
}

// Which rules apply to a request, why others do not, and what would be decided
// now. Nothing is taken.
func ExampleEngine_Explain() {
	set, err := rules.NewSet("api-limits",
		rules.Rule{ID: "everyone", Group: "plan", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)}},
		rules.Rule{
			ID: "premium", Group: "plan", Priority: 10, Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(1_000)},
			When: rules.When{Attributes: map[string][]string{"tier": {"premium"}}},
		},
		rules.Rule{ID: "exports", Paths: []string{"/export/**"}, Bands: []rules.Band{rules.PerHour(5)}})
	if err != nil {
		log.Fatal(err)
	}
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet("api-limits"))
	if err != nil {
		log.Fatal(err)
	}

	x, err := engine.Explain(context.Background(), &fluxgate.Request{
		UserID: "ann", Path: "/users", Attributes: map[string]string{"tier": "premium"},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range x.Rules {
		if v.Applies {
			fmt.Printf("%s applies and counts by %v\n", v.Rule.ID, v.Identity)
		} else {
			fmt.Printf("%s does not apply: %s\n", v.Rule.ID, v.Why)
		}
	}
	fmt.Printf("%s by %s: %d of %d left\n", x.Decision.Reason, x.Decision.RuleID, x.Decision.Remaining, x.Decision.Limit)
	// Output:
	// premium applies and counts by [userId]
	// everyone does not apply: group
	// exports does not apply: path
	// ok by premium: 1000 of 1000 left
}

// A test moves the clock of a store in memory.
func ExampleKeyLimiter_fakeClock() {
	ctx := context.Background()
	now := time.Unix(0, 0)
	store := fluxgate.Must(memstore.New(memstore.Config{Clock: func() time.Time { return now }}))
	logins := fluxgate.NewKeyLimiter(store, "logins", rules.PerMinute(1))
	first, _ := logins.Allow(ctx, "ada")
	second, _ := logins.Allow(ctx, "ada")
	now = now.Add(time.Minute)
	third, _ := logins.Allow(ctx, "ada")
	fmt.Println(first.Allowed, second.Allowed, third.Allowed)
	// Output: true false true
}
