package benchmarks

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// patience is long enough for a busy machine: a timeout would end in a decision without
// Redis.
const patience = 10 * time.Second

// rules has the limits of each workload under a path: the first by user, the second by
// tenant.
func newRules() *rules.Set {
	var all []rules.Rule
	for _, w := range workloads {
		for i, l := range w.limits {
			r := rules.Rule{
				ID: w.name, Paths: []string{"/" + w.name}, Scope: rules.ScopeUser,
				Bands: []rules.Band{{Capacity: l.tokens, Refill: l.period}},
			}
			if i > 0 {
				r.ID, r.Scope, r.KeyFields = w.name+"-tenant", rules.ScopeCustom, []string{"attr:tenant"}
			}
			all = append(all, r)
		}
	}
	return fluxgate.Must(rules.NewSet("api-limits", all...))
}

// fluxgateContender decides by an engine, or by a client of a server.
func fluxgateContender(name string, limiter fluxgate.Limiter) contender {
	return contender{name, func(ctx context.Context, w *workload, keys ...string) (bool, error) {
		req := fluxgate.Request{Path: "/" + w.name, UserID: keys[0]}
		if len(keys) > 1 {
			req.Attributes = map[string]string{"tenant": keys[1]}
		}
		d, err := limiter.Check(ctx, &req)
		if err == nil && d.Degraded {
			err = errors.New("decided without Redis")
		}
		return d.Allowed, err
	}}
}

// strict decides every request in Redis.
func strict(tb testing.TB, redis *testenv.Server) contender {
	tb.Helper()
	return embedded(nameStrict, openStore(tb, redis, "strict"))
}

// leases decides in memory where it can.
func leases(tb testing.TB, redis *testenv.Server) contender {
	tb.Helper()
	return embedded(nameLeases, lease.New(openStore(tb, redis, "leases"), lease.Config{}))
}

func embedded(name string, buckets store.Store) contender {
	return fluxgateContender(name, fluxgate.Must(fluxgate.New(buckets, fluxgate.Static(newRules()), fluxgate.WithOnFailure(rules.FailClosed))))
}

// openStore opens a store with a prefix of its own, so that each is the only gateway.
func openStore(tb testing.TB, redis *testenv.Server, prefix string) store.Store {
	tb.Helper()
	buckets, err := redisstore.Open(tb.Context(), redis.URI(), redisstore.Config{
		Prefix: prefix, Timeout: patience, Logger: slog.New(slog.DiscardHandler), // Redis is flushed between rounds
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = buckets.Close() })
	return buckets
}

// fluxgateServer decides by a server, through the Go client.
func fluxgateServer(tb testing.TB, redis *testenv.Server) contender {
	tb.Helper()
	document := fluxgate.Must(newRules().MarshalJSON())
	addr := servers.Fluxgate(tb, redis, string(document)).HTTP
	c := fluxgate.Must(client.New("http://"+addr, client.Config{Timeout: patience}))
	tb.Cleanup(func() { _ = c.Close() })
	return fluxgateContender(nameServer, c)
}
