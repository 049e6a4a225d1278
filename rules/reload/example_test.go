package reload_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// Rules in a file that take effect as soon as it is saved.
func Example() {
	ctx := context.Background()
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	source, err := filerules.Open("testdata/rules.yaml", filerules.Config{})
	if err != nil {
		log.Fatal(err)
	}
	rules, err := reload.Start(ctx, source, reload.Config{RuleSets: []string{"api-limits"}})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := fluxgate.New(store, rules, fluxgate.WithRuleSet("api-limits"))
	if err != nil {
		log.Fatal(err)
	}
	decision, err := engine.Check(ctx, &fluxgate.Request{Path: "/api/orders"})
	if err != nil {
		log.Fatal(err)
	}
	if err := rules.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d of %d left\n", decision.RuleID, decision.Remaining, decision.Limit)
	// Output: everyone: 19 of 20 left
}
