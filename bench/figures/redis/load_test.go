package redis_test

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redisRate decides by go-redis/redis_rate.
func redisRate(client *redis.Client) func(context.Context, int, int) error {
	limiter := redis_rate.NewLimiter(client)
	return func(ctx context.Context, caller, n int) error {
		_, err := limiter.Allow(ctx, "figures:"+strconv.FormatUint(redisload.Place(caller, n), 10), redis_rate.PerMinute(100))
		return err
	}
}

var perSecond = regexp.MustCompile(`([0-9.]+) requests per second`)

// documents is the throughput of the documents' script in redis-benchmark.
func documents(t *testing.T, addr, sha string) float64 {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	out, err := exec.CommandContext(t.Context(), "redis-benchmark", "-h", host, "-p", port, "-c", "50", "-P", "16",
		"-r", strconv.Itoa(redisload.Keys), "-n", "60000", "-q", "evalsha", sha, "1", "documents:__rand_int__", "100", "60000000000", "1").CombinedOutput()
	if err != nil {
		t.Fatalf("redis-benchmark: %v\n%s", err, out)
	}
	lines := perSecond.FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		t.Fatalf("redis-benchmark said %s", out)
	}
	n, err := strconv.ParseFloat(string(lines[len(lines)-1][1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
