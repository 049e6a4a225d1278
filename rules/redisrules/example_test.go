package redisrules_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
)

// Change a rule set based on its current revision; the former one is kept.
func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	source, err := redisrules.New(client, redisrules.Config{History: 100})
	if err != nil {
		log.Print(err)
		return
	}

	set, err := rules.NewSet("api-limits", rules.Rule{
		ID: "per-ip", Paths: []string{"/api/**"}, Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)},
	})
	if err != nil {
		log.Print(err)
		return
	}
	first, err := source.Put(ctx, set, rules.Change{Author: "alice", Comment: "to begin with"})
	var conflict *rules.ConflictError
	switch {
	case errors.As(err, &conflict):
		fmt.Println("it exists already, at revision", conflict.Current)
		return
	case err != nil:
		log.Print(err) // it may have been made: read the rule set before you try again
		return
	}

	history, err := source.History(ctx, "api-limits", 0, 10)
	if err != nil {
		log.Print(err)
		return
	}
	for _, entry := range history {
		fmt.Println(entry.Revision, entry.At.Format(time.DateTime), entry.Author, entry.Comment)
	}
	if _, err := source.Delete(ctx, "api-limits", rules.Change{Base: first, Author: "bob"}); err != nil {
		log.Print(err)
	}
}
