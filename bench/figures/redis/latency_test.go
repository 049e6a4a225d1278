package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// p50 is the median latency of so many callers, each deciding so often.
func p50(t *testing.T, callers, times int, decide func(caller int) error) time.Duration {
	t.Helper()
	latencies := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for range times {
				start := time.Now()
				if err := decide(caller); err != nil {
					t.Error(err)
					return
				}
				latencies[caller] = append(latencies[caller], time.Since(start))
			}
		})
	}
	wg.Wait()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return all[len(all)/2]
}

// latencyRatio compares the store with the same script through plain go-redis,
// by turns.
func latencyRatio(t *testing.T, addr string, call []any, callers, times int) float64 {
	t.Helper()
	plain := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers, MaxRetries: -1})
	defer func() { _ = plain.Close() }()
	take := redisload.Take(t, redisload.Open(t, "redis://"+addr), 1, rules.PerSecond(1_000_000))
	var ratios []float64
	for round := range 15 {
		own := p50(t, callers, times, func(caller int) error { return take(t.Context(), caller, uint64(round)) })
		theirs := p50(t, callers, times, func(int) error { return plain.Do(t.Context(), call...).Err() })
		ratios = append(ratios, float64(own)/float64(theirs))
	}
	return figure.MedianOf(ratios)
}

// longestCall is the median time for which calls of 256 keys hold the server.
func longestCall(t *testing.T) (time.Duration, error) {
	t.Helper()
	ctx := t.Context()
	server := testenv.StartStandalone(t, testenv.Config{})
	buckets := redisload.Open(t, server.URI())
	for _, setting := range []string{"slowlog-log-slower-than 0", "slowlog-max-len 100000"} {
		name, value, _ := strings.Cut(setting, " ")
		if _, err := server.Do(ctx, "CONFIG", "SET", name, value); err != nil {
			return 0, err
		}
	}
	take := redisload.Take(t, buckets, store.MaxMatches, rules.PerMinute(100))
	redisload.Run(t, take.Spread)
	reply, err := server.Do(ctx, "SLOWLOG", "GET", "100000")
	if err != nil {
		return 0, err
	}
	var micros []int64
	for _, entry := range reply.([]any) {
		fields := entry.([]any)
		if args := fields[3].([]any); args[0] == "EVALSHA" && args[2] == "256" {
			micros = append(micros, fields[2].(int64))
		}
	}
	if len(micros) < 10 {
		return 0, fmt.Errorf("%d calls had 256 keys", len(micros))
	}
	slices.Sort(micros)
	return time.Duration(micros[len(micros)/2]) * time.Microsecond, nil
}
