package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/redis/go-redis/v9"
)

func TestNewClient_Topologies(t *testing.T) {
	for name, uri := range map[string]string{
		"standalone": testenv.SharedStandalone(t).URI(),
		"cluster":    testenv.SharedCluster(t).URI(),
		"sentinel":   testenv.SharedSentinel(t).URI(),
	} {
		t.Run(name, func(t *testing.T) {
			client, err := NewClient(t.Context(), uri, Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for _, key := range []string{"a", "b", "c", "d"} { // in several slots
				if err := client.Set(t.Context(), "client-"+key, name, time.Minute).Err(); err != nil {
					t.Error(err)
				}
			}
			if _, ok := client.(*redis.ClusterClient); ok != (name == "cluster") {
				t.Errorf("it is a %T", client)
			}
		})
	}
	if _, err := NewClient(t.Context(), "http://nowhere", Config{}); err == nil {
		t.Error("there is a client of another scheme")
	}
	if _, err := NewClient(t.Context(), "redis://localhost", Config{Mode: ModeSentinel}); err == nil {
		t.Error("there is a Sentinel without one")
	}
}

// A cluster URI with a scheme for each node is accepted.
func TestOpen_SchemeForEachNode(t *testing.T) {
	uri := "redis://" + strings.Join(testenv.SharedCluster(t).Addrs(), ",redis://")
	store, err := Open(t.Context(), uri, Config{Prefix: "schemes"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if mode, addrs := store.Servers(); mode != ModeCluster || len(addrs) != 3 {
		t.Errorf("%s: %s at %v", uri, mode, addrs)
	}
}
