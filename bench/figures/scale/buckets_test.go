package scale_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

const fewBuckets = 1_000

// bucketFigures measure a decision where there are few buckets and where there are many, and
// beside it what a read and a write of as long keys and values cost Redis: the rest is ours.
func bucketFigures(t *testing.T, report *figure.Report) {
	many := figure.Some(10_000_000)
	server := testenv.StartStandalone(t, testenv.Config{})
	_, fleet := openFleet(t, server.URI())
	// No bucket is full again, or empty, while this runs.
	takers := newTakers(fleet[:1], redisload.Callers, demand(t, 0, rules.Band{Capacity: 1_000_000, RefillTokens: 100, Refill: 24 * time.Hour}))
	take := func(ctx context.Context, i int, key uint64) error {
		setKey(&takers[i].demands[0], key)
		_, err := takers[i].take(ctx)
		return err
	}
	var elapsed []float64 // microseconds of a decision
	decide := func(keys uint64) float64 {
		var times []float64
		cost := figure.Median(5, func() float64 {
			before := load.CPU(t, server.Pid())
			did := redisload.Run(t, func(ctx context.Context, i, _ int) error { return take(ctx, i, rand.Uint64N(keys)) })
			times = append(times, 1e6/did.PerSecond)
			return micros(load.CPU(t, server.Pid())-before) / float64(did.Decisions)
		})
		elapsed = append(elapsed, figure.MedianOf(times))
		return cost
	}
	few := decide(fewBuckets)
	fill(t, len(takers), many, take)
	grew := decide(uint64(many)) - few
	report.Verdict("scale-10m-buckets", fmt.Sprintf("%.2f× (%.2f µs with 10,000,000 buckets, %.2f µs with 1,000)",
		elapsed[1]/elapsed[0], elapsed[1], elapsed[0]), "printed", true)
	report.Verdict("scale-10m-redis-us", fmt.Sprintf("%.2f µs more (%.2f µs with 1,000)", grew, few), "printed", true)

	c := newPlain(t, server)
	writes, reads := c.cost(fewBuckets, c.write), c.cost(fewBuckets, c.read)
	fill(t, 16, many/batch, func(ctx context.Context, _ int, n uint64) error {
		_, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for key := n * batch; key < (n+1)*batch; key++ {
				c.write(ctx, p, c.key(key))
			}
			return nil
		})
		return err
	})
	for name, command := range map[string]command{"get": c.read, "set": c.write} {
		before := map[string]float64{"get": reads, "set": writes}[name]
		report.Verdict("scale-10m-"+name+"-us", fmt.Sprintf("%.2f µs more (%.2f µs with 1,000)", c.cost(uint64(many), command)-before, before), "printed", true)
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1_000 }

// fill calls create for 0 to n, of many callers.
func fill(t *testing.T, callers, n int, create func(ctx context.Context, caller int, key uint64) error) {
	t.Helper()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for key := i; key < n && !t.Failed(); key += callers {
				if err := create(t.Context(), i, uint64(key)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// batch is how many commands are sent at once: a decision of many callers shares its call as well.
const batch = 32

// plain are keys and values as long as those of the store.
type plain struct {
	*testing.T
	server *testenv.Server
	client *redis.Client
	length int // of a key
	value  string
}

type command func(ctx context.Context, p redis.Pipeliner, key string)

func newPlain(t *testing.T, like *testenv.Server) *plain {
	t.Helper()
	server := testenv.StartStandalone(t, testenv.Config{})
	stored := redis.NewClient(&redis.Options{Addr: like.Addr()})
	defer func() { _ = stored.Close() }()
	key := stored.RandomKey(t.Context()).Val()
	value, err := stored.Get(t.Context(), key).Result()
	if err != nil {
		t.Fatal(key, err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return &plain{t, server, client, len(key), strings.Repeat("v", len(value))}
}

func (c *plain) key(n uint64) string { return fmt.Sprintf("%0*x", c.length, n*0x9e3779b97f4a7c15) }

func (c *plain) read(ctx context.Context, p redis.Pipeliner, key string) { p.Get(ctx, key) }

func (c *plain) write(ctx context.Context, p redis.Pipeliner, key string) {
	p.Set(ctx, key, c.value, 24*time.Hour)
}

// cost is the microseconds that Redis uses for a command.
func (c *plain) cost(keys uint64, send command) float64 {
	c.Helper()
	return figure.Median(5, func() float64 {
		before := load.CPU(c, c.server.Pid())
		var sent atomic.Int64
		redisload.RunFor(c.T, 4, figure.For(time.Second), func(ctx context.Context, _, _ int) error {
			sent.Add(batch)
			_, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for range batch {
					send(ctx, p, c.key(rand.Uint64N(keys)))
				}
				return nil
			})
			if err == redis.Nil { //nolint:errorlint // not wrapped: a key that was not written yet
				return nil
			}
			return err
		})
		return micros(load.CPU(c, c.server.Pid())-before) / float64(sent.Load())
	})
}
