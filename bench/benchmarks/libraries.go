package benchmarks

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
)

// newClient has a connection for each caller. Nothing is sent twice: a request would be
// counted twice.
func newClient(tb testing.TB, server *testenv.Server) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: server.Addr(), PoolSize: callers, MaxRetries: -1,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
	})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// inTurn decides by one limit after the other until one refuses, as a program with
// a library does that knows one limit: that of the caller first.
func inTurn(name string, one func(ctx context.Context, w *workload, limit int, key string) (bool, error)) contender {
	return contender{name, func(ctx context.Context, w *workload, keys ...string) (bool, error) {
		for i, key := range keys {
			if ok, err := one(ctx, w, i, key); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	}}
}

// redisRate decides by go-redis/redis_rate.
func redisRate(tb testing.TB, server *testenv.Server) contender {
	tb.Helper()
	limiter := redis_rate.NewLimiter(newClient(tb, server))
	return inTurn(nameRedisRate, func(ctx context.Context, w *workload, i int, key string) (bool, error) {
		l := w.limits[i]
		result, err := limiter.Allow(ctx, key, redis_rate.Limit{Rate: int(l.tokens), Burst: int(l.tokens), Period: l.period})
		return err == nil && result.Allowed > 0, err
	})
}

// throttledLimiter decides by throttled/throttled. It may try as often as there are
// callers to write a bucket that others write: after the 10 times of its default many
// requests of a hot key fail.
func throttledLimiter(tb testing.TB, server *testenv.Server) contender {
	tb.Helper()
	store := fluxgate.Must(goredisstore.NewCtx(newClient(tb, server), "throttled:"))
	limiters := eachLimit(func(l limit) *throttled.GCRARateLimiterCtx {
		limiter := fluxgate.Must(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
			MaxRate: throttled.PerDuration(int(l.tokens), l.period), MaxBurst: int(l.tokens) - 1,
		}))
		limiter.SetMaxCASAttemptsLimit(callers)
		return limiter
	})
	return inTurn(nameThrottled, func(ctx context.Context, w *workload, i int, key string) (bool, error) {
		limited, _, err := limiters[w][i].RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	})
}

// httpRate decides by go-chi/httprate with its counters in Redis. Its counters in memory
// for times without Redis are off.
func httpRate(tb testing.TB, server *testenv.Server) contender {
	tb.Helper()
	redis := newClient(tb, server)
	limiters := eachLimit(func(l limit) *httprate.RateLimiter {
		return httprate.NewRateLimiter(int(l.tokens), l.period, httprate.WithErrorHandler(keepError),
			httprateredis.WithRedisLimitCounter(&httprateredis.Config{Client: redis, FallbackDisabled: true}))
	})
	request := fluxgate.Must(http.NewRequest(http.MethodGet, "/", http.NoBody))
	return inTurn(nameHTTPRate, func(ctx context.Context, w *workload, i int, key string) (bool, error) {
		answer := &headerWriter{header: http.Header{}}
		limited := limiters[w][i].OnLimit(answer, request.WithContext(ctx), key)
		return !limited, answer.err
	})
}

// headerWriter is the ResponseWriter of a limiter that decides without an answer.
type headerWriter struct {
	header http.Header
	err    error
}

func (h *headerWriter) Header() http.Header         { return h.header }
func (h *headerWriter) Write(b []byte) (int, error) { return len(b), nil }
func (h *headerWriter) WriteHeader(status int)      { h.err = fmt.Errorf("answers %d", status) }

func keepError(w http.ResponseWriter, _ *http.Request, err error) { w.(*headerWriter).err = err }

// eachLimit makes a limiter for each limit of each workload.
func eachLimit[L any](newLimiter func(limit) L) map[*workload][]L {
	all := map[*workload][]L{}
	for _, w := range workloads {
		for _, l := range w.limits {
			all[w] = append(all[w], newLimiter(l))
		}
	}
	return all
}
