package lease_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// An engine over Redis that answers busy and blocked callers from memory.
func ExampleNew() {
	ctx := context.Background()
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "all", Bands: []rules.Band{rules.PerSecond(10_000)}}))
	redis, err := redisstore.Open(ctx, "redis://localhost:6379", redisstore.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	store := lease.New(redis, lease.Config{}) // closes redis too
	defer store.Close()
	engine, err := fluxgate.New(store, fluxgate.Static(set))
	if err != nil {
		log.Print(err)
		return
	}
	for range 1_000 {
		if _, err := engine.Check(ctx, &fluxgate.Request{}); err != nil {
			log.Print(err)
			return
		}
	}
	fmt.Println("decided without Redis:", store.Stats().Spent)
}
