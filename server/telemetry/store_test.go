package telemetry_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// A Redis that was killed is reported as down.
func TestWatchStore_RedisKilled(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	store, err := redisstore.Open(t.Context(), server.URI(), redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m, other := newMetrics(t), newMetrics(t)
	for _, each := range []*telemetry.Metrics{m, other} {
		each.WatchStore(store.Health)
	}
	got, node := scrape(t, m), `{node="`+server.Addr()+`"}`
	if got["fluxgate_store_up"] != 1 || got["fluxgate_store_node_up"+node] != 1 || got["fluxgate_store_node_latency_seconds"+node] <= 0 {
		t.Errorf("a healthy server is told as up %v, node %v, latency %v", got["fluxgate_store_up"],
			got["fluxgate_store_node_up"+node], got["fluxgate_store_node_latency_seconds"+node])
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	got = scrape(t, other)
	if up, ok := got["fluxgate_store_node_up"+node]; !ok || up != 0 || got["fluxgate_store_up"] != 0 {
		t.Errorf("a server that is gone is told as up %v, node %v", got["fluxgate_store_up"], up)
	}
	if _, ok := got["fluxgate_store_node_latency_seconds"+node]; ok {
		t.Error("a server that is gone has a latency")
	}
}

// Scrapes check the store at most once in five seconds.
func TestWatchStore_Throttled(t *testing.T) {
	m := newMetrics(t)
	var asked atomic.Int64
	m.WatchStore(func(ctx context.Context) redisstore.Health {
		asked.Add(1)
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the store is asked without a deadline")
		}
		return redisstore.Health{Nodes: []redisstore.NodeHealth{{Addr: "a", Err: errors.New("away")}, {Addr: "a"}}, Warnings: []string{"one"}, Uncovered: 3}
	})
	start := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				got := scrape(t, m)
				if got["fluxgate_store_warnings"] != 1 || got["fluxgate_store_uncovered_shards"] != 3 {
					t.Errorf("%v warnings and %v shards, want 1 and 3", got["fluxgate_store_warnings"], got["fluxgate_store_uncovered_shards"])
				}
			}
		})
	}
	all.Wait()
	if most := 1 + int64(time.Since(start)/(5*time.Second)); asked.Load() > most {
		t.Errorf("the store was asked %d times, want at most %d", asked.Load(), most)
	}
}

// A scrape does not wait for a store that hangs.
func TestWatchStore_Hangs(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMetrics(t)
	release, asked := make(chan struct{}), atomic.Int64{}
	m.WatchStore(func(context.Context) redisstore.Health {
		asked.Add(1)
		<-release
		return redisstore.Health{Nodes: []redisstore.NodeHealth{{Addr: "a"}}}
	})
	for range 2 {
		got := scrape(t, m)
		if up, ok := got["fluxgate_store_up"]; !ok || up != 0 {
			t.Errorf("a store that hangs is told as up %v (there: %v)", up, ok)
		}
		if _, ok := got["fluxgate_peeks_total"]; !ok {
			t.Error("the rest is missing")
		}
	}
	if asked.Load() != 1 {
		t.Errorf("%d probes wait for a store that hangs, want 1", asked.Load())
	}
	close(release)
	testenv.Eventually(t, "the store to be told as up", func() bool { return scrape(t, m)["fluxgate_store_up"] == 1 })
}
