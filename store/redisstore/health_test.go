package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

func TestHealth_Topologies(t *testing.T) {
	for name, test := range map[string]struct {
		uri   func(testing.TB) string
		mode  Mode
		nodes int
	}{
		"standalone": {func(t testing.TB) string { return testenv.SharedStandalone(t).URI() }, ModeStandalone, 1},
		"sentinel":   {func(t testing.TB) string { return testenv.SharedSentinel(t).URI() }, ModeSentinel, 1},
		"cluster":    {func(t testing.TB) string { return testenv.SharedCluster(t).URI() }, ModeCluster, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, test.uri(t), Config{})
			h := s.Health(t.Context())
			t.Logf("%+v", h)
			if !h.Healthy() || h.Mode != test.mode || len(h.Nodes) != test.nodes || h.Uncovered != 0 || len(h.Warnings) != 0 {
				t.Errorf("%+v", h)
			}
			shards := 0
			for _, n := range h.Nodes {
				shards += n.Shards
				if n.Role != "master" || n.Version == "" || n.MemoryPolicy != "noeviction" || n.Latency <= 0 || n.Latency > time.Second ||
					!strings.HasPrefix(n.Addr, "127.0.0.1:") {
					t.Errorf("%+v", n)
				}
			}
			if shards != 64 {
				t.Errorf("%d of 64 shards", shards)
			}
		})
	}
}

func TestHealth_EvictionPolicy(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, server.URI(), Config{})
	for policy, warns := range map[string]bool{
		"noeviction": false, "volatile-ttl": false,
		"allkeys-lru": true, "allkeys-lfu": true, "allkeys-random": true,
		"volatile-lru": true, "volatile-lfu": true, "volatile-random": true,
	} {
		if _, err := server.Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", policy); err != nil {
			t.Fatal(err)
		}
		s.nodes.queue(0).info.at = time.Time{} // what is known is a second old
		h := s.Health(t.Context())
		if !h.Healthy() || h.Nodes[0].MemoryPolicy != policy || (len(h.Warnings) == 1) != warns {
			t.Errorf("under %s: %+v", policy, h)
		}
		if warns && !strings.Contains(h.Warnings[0], policy) {
			t.Errorf("under %s: %v", policy, h.Warnings)
		}
	}
}

func TestHealth_DeadServer(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, server.URI(), Config{Refresh: 20 * time.Millisecond})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	h := s.Health(t.Context())
	if h.Healthy() || h.Nodes[0].Err == nil {
		t.Errorf("%+v", h)
	}
	until(t, "the fleet state is reported too", func() bool {
		h := s.Health(t.Context())
		return h.Err != nil
	})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it is healthy again", func() bool {
		h := s.Health(t.Context())
		return h.Healthy()
	})
}

// One decision that has no answer is enough if the server does not answer a query either:
// the next decision may come much later.
func TestHealth_FrozenServer(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: 100 * time.Millisecond}, srv)
	d := tr.demand(ample)
	tr.takeEventually(d)
	until(t, "it is healthy", func() bool { h := tr.Health(t.Context()); return h.Healthy() })
	must(t, srv.Freeze())
	if _, err := tr.take(d); err == nil {
		t.Fatal("a frozen server has decided")
	}
	until(t, "the call has failed too", tr.nodes.queue(0).failing)
	if h := tr.Health(t.Context()); h.Healthy() || h.Nodes[0].Open {
		t.Errorf("%+v", h)
	}
	must(t, srv.Thaw())
	until(t, "it is healthy", func() bool { h := tr.Health(t.Context()); return h.Healthy() })
}

func TestHealth_DeadClusterMaster(t *testing.T) {
	cluster := testenv.StartCluster(t, testenv.Config{})
	s := openStore(t, cluster.URI(), Config{})
	masters, err := cluster.Masters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := masters[1].Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	h := s.Health(ctx)
	dead := 0
	for _, n := range h.Nodes {
		if n.Err != nil {
			dead++
		}
	}
	if h.Healthy() || dead != 1 {
		t.Errorf("%d dead: %+v", dead, h)
	}
}

// A server that is out of memory and may not evict refuses to write: nothing is
// taken, and the error says why.
func TestTake_ServerOutOfMemory(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	a, b := p.demand("a", 1, year), p.demand("b", 1, year)
	p.take(a)
	if _, err := server.Do(t.Context(), "CONFIG", "SET", "maxmemory", "1"); err != nil {
		t.Fatal(err)
	}
	var out store.Outcome
	err := p.Take(t.Context(), []store.Demand{a, b}, &out)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("the error is %v", err)
	}
	if _, err := server.Do(t.Context(), "CONFIG", "SET", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	if p.left(a) != 2 || p.left(b) != 3 {
		t.Errorf("%d and %d tokens are left, not 2 and 3", p.left(a), p.left(b))
	}
}
