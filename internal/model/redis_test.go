package model

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

func init() {
	openRedis = func(h *History, addrs []string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (store.Store, func(), error) {
		config := redisstore.Config{
			Shards: h.Redis.Shards, Timeout: h.Redis.Timeout, Gateways: len(h.Gateways), Pool: redisstore.Pool{Size: 64},
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
		var client redis.UniversalClient
		if h.Redis.Cluster {
			client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Dialer: dial})
		} else {
			client = redis.NewClient(&redis.Options{Addr: addrs[0], Dialer: dial})
		}
		s, err := redisstore.New(context.Background(), client, config)
		if err != nil {
			_ = client.Close()
			return nil, nil, err
		}
		return s, func() { _, _ = s.Close(), client.Close() }, nil
	}
}

var redisHistories = flag.Uint64("redis", 0, "run so many histories with servers of Redis")

// Histories with servers of Redis keep to the specification.
func TestHistories_Redis(t *testing.T) {
	most := *redisHistories
	if most == 0 {
		most = 40
	}
	*keepGoing = true
	s := &search{most: *firstSeed + most*redisEvery, next: *firstSeed, only: func(seed uint64) bool {
		return rand.New(rand.NewPCG(seed, 25)).IntN(redisEvery) == 0
	}}
	s.run(t)
	for line, n := range s.byLine {
		example := s.examples[line]
		t.Errorf("%s is broken in %d histories, first by seed %d: %v", line, n, example.history.Seed, example.violations[0])
	}
	t.Log(s.covered.Histories)
}
