package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// A store from a URI, and the health of its servers.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	store, err := redisstore.Open(ctx, "redis://gateway:secret@localhost:6379", redisstore.Config{
		Timeout: 50 * time.Millisecond,
	})
	if err != nil {
		log.Print(err) // never shows the password
		return
	}
	defer store.Close()

	health := store.Health(ctx)
	for _, node := range health.Nodes {
		fmt.Println(node.Addr, node.Role, node.Version, node.Latency)
	}
	for _, warning := range health.Warnings {
		fmt.Println(warning)
	}
}

// A store on the servers of an existing client, with its TLS, credentials and
// pool.
func ExampleNew() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"10.0.0.1:6379", "10.0.0.2:6379"}})
	defer client.Close()

	store, err := redisstore.New(context.Background(), client, redisstore.Config{Prefix: "shop", Shards: 128})
	if err != nil {
		log.Print(err)
		return
	}
	defer store.Close()
	fmt.Println(store)
}

// All buckets of a rule are full again, however many there are. Other gateways
// see it within their Refresh.
func ExampleStore_Reset() {
	ctx := context.Background()
	buckets, err := redisstore.Open(ctx, "redis://localhost:6379", redisstore.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	defer buckets.Close()

	if _, err := buckets.Reset(ctx, store.Reset{Key: store.Key{RuleSet: "api-limits", Rule: "per-user"}}); err != nil {
		log.Print(err)
	}
}
