package http_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	throttledmemory "github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	ulule "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// perMinute is the limit of each address, which no address reaches: allowed
// requests are what matters.
const perMinute = 1_000_000_000

var bare = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

type middleware = func(http.Handler) http.Handler

// ours limits each address, with all headers on.
func ours(t *testing.T, buckets store.Store) middleware {
	t.Helper()
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{
		ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{{Label: "per-minute", Capacity: 10_000_000, RefillTokens: 10_000_000, Refill: time.Second}},
	}))
	return fluxgate.Must(httplimit.New(fluxgate.Must(fluxgate.New(buckets, fluxgate.Static(set), fluxgate.WithOnFailure(rules.FailClosed)))))
}

func memory(t *testing.T) store.Store {
	t.Helper()
	buckets := fluxgate.Must(memstore.New(memstore.Config{}))
	t.Cleanup(func() { _ = buckets.Close() })
	return buckets
}

func shared(t *testing.T, server *testenv.Server) store.Store {
	t.Helper()
	buckets := fluxgate.Must(redisstore.Open(t.Context(), server.URI(), redisstore.Config{Timeout: 5 * time.Second}))
	t.Cleanup(func() { _ = buckets.Close() })
	return buckets
}

func httprateInMemory(next http.Handler) http.Handler {
	byPeer := func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return host, err
	}
	return httprate.LimitBy(perMinute, time.Minute, byPeer)(next)
}

func ululeWith(store limiter.Store) middleware {
	return ulule.NewMiddleware(limiter.New(store, limiter.Rate{Period: time.Minute, Limit: perMinute})).Handler
}

func ululeInMemory(next http.Handler) http.Handler { return ululeWith(ululememory.NewStore())(next) }

func ululeOverRedis(t *testing.T, server *testenv.Server) middleware {
	t.Helper()
	return ululeWith(fluxgate.Must(ululeredis.NewStore(newClient(t, server))))
}

func throttledWith(t *testing.T, store throttled.GCRAStoreCtx) middleware {
	t.Helper()
	limit := fluxgate.Must(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(perMinute), MaxBurst: 1_000_000}))
	return (&throttled.HTTPRateLimiterCtx{RateLimiter: limit, VaryBy: &throttled.VaryBy{RemoteAddr: true}}).RateLimit
}

func throttledInMemory(t *testing.T) middleware {
	t.Helper()
	return throttledWith(t, fluxgate.Must(throttledmemory.NewCtx(65_536)))
}

func throttledOverRedis(t *testing.T, server *testenv.Server) middleware {
	t.Helper()
	return throttledWith(t, fluxgate.Must(goredisstore.NewCtx(newClient(t, server), "throttled:")))
}

func newClient(t *testing.T, server *testenv.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 64})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
