package rules_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
)

// meter counts the bytes of the connections that it dials.
type meter struct {
	net.Dialer
	bytes atomic.Int64
}

func (m *meter) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := m.Dialer.DialContext(ctx, network, addr)
	return &metered{Conn: conn, meter: m}, err
}

type metered struct {
	net.Conn
	meter *meter
}

func (c *metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.meter.bytes.Add(int64(n))
	return n, err
}

func (c *metered) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.meter.bytes.Add(int64(n))
	return n, err
}

// sources are the editors on real servers, each with the meter of its reads.
func sources(t *testing.T, meters map[string]*meter) map[string]rules.Editor {
	t.Helper()
	redisMeter, mongoMeter := &meter{}, &meter{}
	meters["redis"], meters["mongo"] = redisMeter, mongoMeter
	server := testenv.StartStandalone(t, testenv.Config{})
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: redisMeter.DialContext, PoolSize: 50})
	t.Cleanup(func() { _ = client.Close() })

	database := testenv.StartMongo(t)
	mongoClient := fluxgate.Must(mongo.Connect(options.Client().ApplyURI(database.URI()).SetDialer(mongoMeter).SetHeartbeatInterval(time.Hour)))
	t.Cleanup(func() { _ = mongoClient.Disconnect(context.Background()) })
	return map[string]rules.Editor{
		"redis": fluxgate.Must(redisrules.New(client, redisrules.Config{})),
		"mongo": fluxgate.Must(mongorules.New(t.Context(), mongoClient.Database("figures"), mongorules.Config{})),
	}
}

// polling counts the bytes, both ways, of asking for the revision of the
// largest rule set there can be.
func polling(t *testing.T, report *figure.Report) {
	t.Helper()
	meters := map[string]*meter{}
	for name, source := range sources(t, meters) {
		if _, err := source.Put(t.Context(), largest(t), rules.Change{Author: "figures"}); err != nil {
			report.Failed("rules-poll-bytes-"+name, err)
			continue
		}
		const polls = 100
		poll := func() {
			if heads, err := source.Revisions(t.Context(), []string{"largest"}); err != nil || heads["largest"].Revision != 1 {
				t.Fatalf("%v, %v", heads, err)
			}
		}
		poll()
		before := meters[name].bytes.Load()
		for range polls {
			poll()
		}
		perPoll := float64(meters[name].bytes.Load()-before) / polls
		report.AtMost("rules-poll-bytes-"+name, perPoll, map[string]float64{"redis": 128, "mongo": 1_024}[name], " B")
	}
}

// writing has 50 writers make 1,000 changes, each one more than what it has
// read.
func writing(t *testing.T, report *figure.Report) {
	t.Helper()
	const writers = 50
	changes := figure.Rounds(20) * writers
	for name, source := range sources(t, map[string]*meter{}) {
		start := time.Now()
		var left, conflicts atomic.Int64
		left.Store(int64(changes))
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for n := left.Add(-1); n >= 0; n = left.Add(-1) {
					conflicts.Add(countUp(t, source))
				}
			})
		}
		all.Wait()
		t.Logf("%s: %d changes in %v, %d conflicts", name, changes, time.Since(start).Round(time.Millisecond), conflicts.Load())
		history, err := source.History(t.Context(), "set", 0, rules.MaxPage)
		if err != nil {
			report.Failed("rules-50-writers-"+name, err)
			continue
		}
		version, err := source.Load(t.Context(), "set")
		if err != nil {
			report.Failed("rules-50-writers-"+name, err)
			continue
		}
		counted := count(version)
		value := fmt.Sprintf("%d revisions, counted to %d", len(history), counted)
		report.Verdict("rules-50-writers-"+name, value, fmt.Sprintf("%d and %d", changes, changes), len(history) == changes && counted == int64(changes))
	}
}

// countUp makes a version that counts one further than the current one, trying
// again after a conflict, and returns how many conflicts there were.
func countUp(t *testing.T, source rules.Editor) (conflicts int64) {
	for {
		change, counted := rules.Change{Author: "figures"}, int64(0)
		version, err := source.Load(t.Context(), "set")
		if err == nil {
			change.Base, counted = version.Revision, count(version)
		} else if !errors.Is(err, rules.ErrNotFound) {
			t.Error(err)
			return conflicts
		}
		set := fluxgate.Must(rules.NewSet("set", rules.Rule{
			ID: "counter", Bands: []rules.Band{rules.PerMinute(counted + 1)},
		}))
		_, err = source.Put(t.Context(), set, change)
		var conflict *rules.ConflictError
		switch {
		case err == nil:
			return conflicts
		case errors.As(err, &conflict):
			conflicts++
		default:
			t.Error(err)
			return conflicts
		}
	}
}

// count is how far a version has counted.
func count(v *rules.Version) (n int64) {
	for rule := range v.RuleSet.Rules() {
		n = rule.Bands[0].Capacity
	}
	return n
}
