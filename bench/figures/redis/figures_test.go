// Package redis_test measures the Redis store against others on one real
// server: see make figures-redis.
package redis_test

import (
	_ "embed"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

//go:embed control.lua
var control string

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	t.Run("speed", func(t *testing.T) { speedFigures(t, report) })
	t.Run("memory", func(t *testing.T) { memoryFigures(t, report) })
}

func speedFigures(t *testing.T, report *figure.Report) {
	server := testenv.StartStandalone(t, testenv.Config{})
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: redisload.Callers})
	defer func() { _ = client.Close() }()
	sha, err := client.ScriptLoad(t.Context(), control).Result()
	if err != nil {
		t.Fatal(err)
	}
	buckets := redisload.Open(t, server.URI())

	minute := rules.PerMinute(100)
	one := redisload.Take(t, buckets, 1, minute)
	three := redisload.Take(t, buckets, 3, rules.PerSecond(100), minute)
	rate := redisRate(client)
	var vsDocuments, vsRate, vsOne, p99 []float64
	for range figure.Rounds(7) {
		docs := documents(t, server.Addr(), sha)
		own := redisload.Run(t, one.Spread)
		theirs := redisload.Run(t, rate)
		rules := redisload.Run(t, three.Spread)
		vsDocuments = append(vsDocuments, own.PerSecond/docs)
		vsRate = append(vsRate, own.PerSecond/theirs.PerSecond)
		vsOne = append(vsOne, rules.PerSecond/own.PerSecond)
		p99 = append(p99, float64(own.P99)/float64(theirs.P99))
		t.Logf("documents %.0f/s; ours %.0f/s p99 %v; redis_rate %.0f/s p99 %v; three rules %.0f/s p99 %v",
			docs, own.PerSecond, own.P99, theirs.PerSecond, theirs.P99, rules.PerSecond, rules.P99)
	}
	report.AtLeast("redis-vs-documents", figure.MedianOf(vsDocuments), 2.5, "×")
	report.AtLeast("redis-vs-redis_rate", figure.MedianOf(vsRate), 4, "×")
	report.AtMost("redis-p99-vs-redis_rate", figure.MedianOf(p99), 1, "×")
	report.AtLeast("redis-three-rules-vs-one", figure.MedianOf(vsOne), 0.35, "×")

	call := redisload.RecordCalls(t, server, 1, func(s store.Store) error {
		return redisload.Take(t, s, 1, rules.PerSecond(1_000_000))(t.Context(), 0, 0)
	})[0]
	report.AtMost("redis-lone-latency-vs-go-redis", latencyRatio(t, server.Addr(), call, 1, 1_000), 1.15, "×")
	proxy := testenv.StartProxy(t, server.Addr())
	proxy.SetLatency(500*time.Microsecond, 500*time.Microsecond)
	report.AtMost("redis-slow-network-p50-vs-go-redis", latencyRatio(t, proxy.Addr(), call, 64, 50), 1.3, "×")

	longest, err := longestCall(t)
	if err != nil {
		report.Failed("redis-256-keys-hold-the-server", err)
	} else {
		report.AtMost("redis-256-keys-hold-the-server", float64(longest.Microseconds()), 2_000, " µs")
	}
}

func memoryFigures(t *testing.T, report *figure.Report) {
	day := rules.PerDay(1_000)
	hour, slow := rules.PerHour(500), rules.Band{Capacity: 100, RefillTokens: 1, Refill: time.Minute}
	report.AtMost("redis-bytes-per-bucket-1-band", redisload.BytesPerBucket(t, figure.Some(1_000_000), day), 200, " B")
	report.AtMost("redis-bytes-per-bucket-3-bands", redisload.BytesPerBucket(t, figure.Some(1_000_000), day, hour, slow), 250, " B")
	const callers = 10_000_000
	month := rules.Band{Capacity: 1_000, Refill: 30 * 24 * time.Hour} // no bucket is full again meanwhile
	report.AtMost("redis-gb-10-million-callers", redisload.BytesPerBucket(t, figure.Some(callers), month)*callers/1e9, 2.2, " GB")
}
