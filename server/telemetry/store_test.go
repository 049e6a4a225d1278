package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// A Redis that was killed is reported as down.
func TestWatchStore_RedisKilled(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	store, err := redisstore.Open(t.Context(), server.URI(), redisstore.Config{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m := newMetrics(t)
	m.WatchStore(store.Health)
	got, node := scrape(t, m), `{node="`+server.Addr()+`"}`
	if got["fluxgate_store_up"] != 1 || got["fluxgate_store_node_up"+node] != 1 || got["fluxgate_store_node_latency_seconds"+node] <= 0 {
		t.Errorf("a healthy server is told as up %v, node %v, latency %v", got["fluxgate_store_up"],
			got["fluxgate_store_node_up"+node], got["fluxgate_store_node_latency_seconds"+node])
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the server to be reported as down", func() bool {
		got = scrape(t, m)
		up, ok := got["fluxgate_store_node_up"+node]
		return ok && up == 0 && got["fluxgate_store_up"] == 0
	})
	if _, ok := got["fluxgate_store_node_latency_seconds"+node]; ok {
		t.Error("a server that is gone has a latency")
	}
	if value, ok := got["fluxgate_store_warnings"]; ok {
		t.Errorf("the settings of a server that is gone have %v problems", value)
	}
}

// A server whose breaker is open is down.
func TestWatchStore_BreakerOpen(t *testing.T) {
	m := newMetrics(t)
	m.WatchStore(func(ctx context.Context) redisstore.Health {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the store is asked without a deadline")
		}
		return redisstore.Health{Nodes: []redisstore.NodeHealth{{Addr: "a", Err: errors.New("away"), Open: true}, {Addr: "a"}}, Warnings: []string{"one"}, Uncovered: 3}
	})
	got := scrape(t, m)
	for name, want := range map[string]float64{
		"store_up": 0, `store_node_up{node="a"}`: 0, `store_breaker_open{node="a"}`: 1, "store_warnings": 1, "store_uncovered_shards": 3,
	} {
		if value, ok := got["fluxgate_"+name]; !ok || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
}
