package redis_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store/redisstore"
	"github.com/redis/go-redis/v9"
)

// recordCall is the call that the store makes for one decision, as the server
// sees it.
func recordCall(t *testing.T, server *testenv.Server, decide func() error) []any {
	t.Helper()
	connection, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		line := lines.Text()
		if line == "+OK" { // MONITOR has started
			if err := decide(); err != nil {
				t.Fatal(err)
			}
		}
		if i := strings.Index(line, `"EVALSHA"`); i >= 0 {
			return parseMonitor(t, line[i:])
		}
	}
	t.Fatalf("the server saw no call of the store: %v", lines.Err())
	return nil
}

// parseMonitor reads the quoted arguments of a line of MONITOR.
func parseMonitor(t *testing.T, line string) []any {
	t.Helper()
	var args []any
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%v in %q", err, rest)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, arg)
		rest = rest[len(quoted):]
	}
	return args
}

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
	store, err := redisstore.Open(t.Context(), "redis://"+addr, redisstore.Config{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	take := ours(t, store, 1, fluxgate.PerSecond(1_000_000))
	var ratios []float64
	for round := range 15 {
		own := p50(t, callers, times, func(caller int) error { return take(t.Context(), caller, uint64(round)) })
		theirs := p50(t, callers, times, func(int) error { return plain.Do(t.Context(), call...).Err() })
		ratios = append(ratios, float64(own)/float64(theirs))
	}
	return median(ratios)
}

// bytesPerBucket is the growth of the server's memory over a million buckets.
func bytesPerBucket(t *testing.T, bands ...fluxgate.Band) float64 {
	t.Helper()
	const buckets = 1_000_000
	server := testenv.StartStandalone(t, testenv.Config{})
	store, err := redisstore.Open(t.Context(), server.URI(), redisstore.Config{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	take := ours(t, store, 1, bands...)
	before := usedMemory(t, server)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := caller; n < buckets; n += callers {
				if err := take(t.Context(), caller, uint64(n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	size, err := server.Do(t.Context(), "DBSIZE")
	if err != nil || size.(int64) < buckets {
		t.Fatalf("%v keys for %d buckets: %v", size, buckets, err)
	}
	return (usedMemory(t, server) - before) / buckets
}

func usedMemory(t *testing.T, server *testenv.Server) float64 {
	t.Helper()
	info, err := server.Info(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseFloat(info["used_memory"], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// longestCall is the median time for which calls of 256 keys hold the server.
func longestCall(t *testing.T) (time.Duration, error) {
	t.Helper()
	ctx := t.Context()
	server := testenv.StartStandalone(t, testenv.Config{})
	store, err := redisstore.Open(ctx, server.URI(), redisstore.Config{Timeout: 10 * time.Second})
	if err != nil {
		return 0, err
	}
	defer func() { _ = store.Close() }()
	for _, setting := range []string{"slowlog-log-slower-than 0", "slowlog-max-len 100000"} {
		name, value, _ := strings.Cut(setting, " ")
		if _, err := server.Do(ctx, "CONFIG", "SET", name, value); err != nil {
			return 0, err
		}
	}
	take := ours(t, store, fluxgate.MaxMatches, fluxgate.PerMinute(100))
	run(t, take.spread)
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
