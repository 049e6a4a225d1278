package redis_test

import (
	"context"
	"encoding/binary"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/redisstore"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

const (
	callers = 256
	keys    = 100_000
	slice   = time.Second
)

// load is the throughput of one kind of caller.
type load struct {
	perSecond float64
	p99       time.Duration
}

// run has all callers decide for a while. decide is given the number of the
// caller and of its decision.
func run(t *testing.T, decide func(ctx context.Context, caller, n int) error) load {
	t.Helper()
	latencies := make([][]time.Duration, callers)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := 0; ; n++ {
				began := time.Now()
				if began.Sub(start) > slice {
					return
				}
				if err := decide(ctx, caller, n); err != nil {
					t.Error(err)
					return
				}
				latencies[caller] = append(latencies[caller], time.Since(began))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return load{perSecond: float64(len(all)) / elapsed.Seconds(), p99: all[len(all)*99/100]}
}

// place spreads the decisions of all callers over the keys.
func place(caller, n int) uint64 { return uint64(caller*7919+n*31) % keys }

// takes decides on a store, for one key of one caller.
type takes func(ctx context.Context, caller int, key uint64) error

// spread decides for the keys in turn.
func (f takes) spread(ctx context.Context, caller, n int) error {
	return f(ctx, caller, place(caller, n))
}

// ours decides by rules of so many bands each.
func ours(t *testing.T, store *redisstore.Store, rules int, bands ...fluxgate.Band) takes {
	t.Helper()
	var exact []fluxgate.ExactBand
	for i, b := range bands {
		e, err := b.Exact(i)
		if err != nil {
			t.Fatal(err)
		}
		exact = append(exact, e)
	}
	type own struct {
		demands []fluxgate.Demand
		out     fluxgate.Outcome
	}
	state := make([]own, callers)
	for i := range state {
		for r := range rules {
			d := fluxgate.Demand{Key: fluxgate.Key{RuleSet: "figures", Rule: strconv.Itoa(r)}, Bands: exact, Cost: 1}
			d.Key.ID[15], d.Key.ID[14] = byte(r), byte(len(bands))
			state[i].demands = append(state[i].demands, d)
		}
	}
	return func(ctx context.Context, caller int, key uint64) error {
		own := &state[caller]
		for i := range own.demands {
			binary.LittleEndian.PutUint64(own.demands[i].Key.ID[:], key*0x9e3779b97f4a7c15)
		}
		return store.Take(ctx, own.demands, &own.out)
	}
}

// redisRate decides by go-redis/redis_rate.
func redisRate(client *redis.Client) func(context.Context, int, int) error {
	limiter := redis_rate.NewLimiter(client)
	return func(ctx context.Context, caller, n int) error {
		_, err := limiter.Allow(ctx, "figures:"+strconv.FormatUint(place(caller, n), 10), redis_rate.PerMinute(100))
		return err
	}
}

var perSecond = regexp.MustCompile(`([0-9.]+) requests per second`)

// documents is the throughput of the documents' script in redis-benchmark.
func documents(t *testing.T, addr, sha string) float64 {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	out, err := exec.CommandContext(t.Context(), "redis-benchmark", "-h", host, "-p", port, "-c", "50", "-P", "16",
		"-r", strconv.Itoa(keys), "-n", "60000", "-q", "evalsha", sha, "1", "documents:__rand_int__", "100", "60000000000", "1").CombinedOutput()
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
