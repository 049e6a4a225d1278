package customers_test

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// gateway decides with the rules and overrides in Redis.
type gateway struct {
	engine *fluxgate.Engine
	rules  *reload.Reloader
	read   atomic.Int64 // bytes from Redis
}

// newClient counts the bytes that it reads.
func newClient(t *testing.T, addr string, read *atomic.Int64) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &countedConn{conn, read}, err
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

func startGateway(t *testing.T, addr string) *gateway {
	t.Helper()
	g := &gateway{}
	client := newClient(t, addr, &g.read)
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	table := fluxgate.NewOverrides(store, 0)
	g.rules = fluxgate.Must(reload.Start(t.Context(), fluxgate.Must(redisrules.New(client, redisrules.Config{})), reload.Config{
		RuleSets: []string{"api"}, Strategy: reload.Auto, Interval: time.Hour, Redis: client, Overrides: table,
		Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(func() { _ = g.rules.Close() })
	t.Cleanup(func() { _ = store.Close() })
	g.engine = fluxgate.Must(fluxgate.New(store, g.rules, fluxgate.WithRuleSet("api"), fluxgate.WithOverrides(table)))
	for g.rules.Stats().Subscribed == 0 {
		time.Sleep(time.Millisecond)
	}
	if table.Len() != customers() {
		t.Fatalf("a gateway has %d overrides", table.Len())
	}
	return g
}

// limitOf is the capacity of a customer.
func (g *gateway) limitOf(t *testing.T, user string) int64 {
	t.Helper()
	d, err := g.engine.Check(t.Context(), &fluxgate.Request{UserID: user, Method: "GET", Path: "/"})
	do(t, err)
	return d.Limit
}

// changing changes one override of many, and measures when 20 gateways that listen use it,
// and what one of them reads for it.
func changing(t *testing.T, report *figure.Report) {
	t.Helper()
	server := testenv.StartStandalone(t, testenv.Config{})
	client := newClient(t, server.Addr(), new(atomic.Int64))
	editor := reload.Announcing(fluxgate.Must(redisrules.New(client, redisrules.Config{})), client, reload.AnnounceConfig{}).(rules.OverrideEditor)
	_, err := editor.(rules.Editor).Put(t.Context(), standard(t), rules.Change{Author: "figures"})
	do(t, err)
	for part := range slices.Chunk(overrides(0, customers(), 0), rules.MaxPage) {
		_, err := editor.PutOverrides(t.Context(), "api", part)
		do(t, err)
	}
	gateways := make([]*gateway, figure.Some(20))
	for i := range gateways {
		gateways[i] = startGateway(t, server.Addr())
	}
	var took []time.Duration
	most := int64(0)
	for n := range figure.Rounds(100) {
		at := n * 977 % customers()
		next := overrides(at, at+1, n+1)
		want := fluxgate.Must(ruleOf(t).Overridden(next[0].Times, next[0].Bands))[0].Capacity
		for _, g := range gateways {
			g.read.Store(0)
		}
		_, err := editor.PutOverrides(t.Context(), "api", next)
		do(t, err)
		took = append(took, effect(t, gateways, customer(at), want)...)
		time.Sleep(20 * time.Millisecond) // whatever else is read for it
		for _, g := range gateways {
			most = max(most, g.read.Load())
		}
	}
	slices.Sort(took)
	t.Logf("100 changes on %d gateways: median %v, slowest %v", len(gateways), took[len(took)/2], took[len(took)-1])
	report.AtMost("customers-change-in-effect-ms", float64(took[len(took)*99/100].Microseconds())/1e3, 200, " ms")
	report.AtMost("customers-change-bytes", float64(most), 65_536, " B")
}

func ruleOf(t *testing.T) *rules.Rule {
	t.Helper()
	rule, _ := standard(t).Rule("standard")
	return &rule
}

// effect is how long each gateway takes to have a limit, since now.
func effect(t *testing.T, gateways []*gateway, user string, want int64) []time.Duration {
	t.Helper()
	committed, took := time.Now(), make([]time.Duration, len(gateways))
	var all sync.WaitGroup
	for i, g := range gateways {
		all.Go(func() {
			for g.limitOf(t, user) != want {
				if time.Since(committed) > time.Minute {
					t.Error("a gateway never saw the change")
					return
				}
				time.Sleep(time.Millisecond)
			}
			took[i] = time.Since(committed)
		})
	}
	all.Wait()
	return took
}
