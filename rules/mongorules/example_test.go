package mongorules_test

import (
	"context"
	"log"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
)

func Example() {
	ctx := context.Background()
	source, err := mongorules.Open(ctx, "mongodb://localhost:27017/fluxgate", mongorules.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()

	set, err := rules.NewSet("api-limits", rules.Rule{
		ID: "per-ip", Paths: []string{"/api/**"}, Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)},
	})
	if err != nil {
		log.Print(err) // the problems and where they are
		return
	}
	revision, err := source.Put(ctx, set, rules.Change{Author: "ann", Comment: "first limits"})
	if err != nil {
		log.Print(err) // a rules.ConflictError if the rule set exists already
		return
	}
	log.Printf("revision %d", revision)
}
