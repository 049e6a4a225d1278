package envoyratelimit_test

import (
	"context"
	"math/rand"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/redis"
	service "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/envoyproxy/ratelimit/src/utils"
	gostats "github.com/lyft/gostats"
	"github.com/sirupsen/logrus"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// originalService is envoyproxy/ratelimit itself: its service, its fixed cache and its driver
// on a Redis server, on a clock of the test.
type originalService struct {
	service.RateLimitServiceServer
	counters *counters
}

// clock is the time of both services, in seconds since 1970.
type clock struct{ seconds int64 }

// UnixNow implements [utils.TimeSource].
func (c *clock) UnixNow() int64 { return c.seconds }

// fixedConfig is a configuration that does not change.
type fixedConfig struct{ config.RateLimitConfig }

func (c fixedConfig) GetConfig() (config.RateLimitConfig, any) { return c.RateLimitConfig, nil }

func (c fixedConfig) Stop() {}

func (c fixedConfig) ConfigUpdateEvent() <-chan provider.ConfigUpdateEvent {
	events := make(chan provider.ConfigUpdateEvent, 1)
	events <- c
	return events
}

func newOriginalService(t *testing.T, now utils.TimeSource) *originalService {
	t.Helper()
	logrus.SetLevel(logrus.ErrorLevel)
	scope := gostats.NewStore(gostats.NewNullSink(), false)
	manager := stats.NewStatManager(scope, settings.Settings{})
	server := testenv.StartStandalone(t, testenv.Config{})
	client := redis.NewClientImpl(scope, false, "", "tcp", "single", server.Addr(), 1, 0, 0, nil, false, nil, time.Minute, "", "")
	t.Cleanup(func() { _ = client.Close() })
	c := &counters{
		RateLimitCache: redis.NewFixedRateLimitCacheImpl(client, nil, now, rand.New(rand.NewSource(1)), 0, nil, 0.8, "", manager, false),
		client:         client, now: now, keys: limiter.NewCacheKeyGenerator(""),
	}
	loaded, err := loadOriginal([]byte("domain: empty"))
	if err != nil {
		t.Fatal(err)
	}
	return &originalService{service.NewService(c, fixedConfig{loaded.config}, manager, nil, now, false, false, false), c}
}

// counters is the cache of the service. It notes what the limits were that the service found,
// and what their counters are.
type counters struct {
	limiter.RateLimitCache
	client redis.Client
	now    utils.TimeSource
	keys   limiter.CacheKeyGenerator
	last   []counted
}

// counted is what one descriptor of a call was counted in.
type counted struct {
	limit  *config.RateLimit // nil if it is unlimited or replaced, or there is none
	status *pb.RateLimitResponse_DescriptorStatus
	key    string
	hits   uint64
	count  uint64 // after the hits
}

// over reports whether the count is above the limit, also of a limit in shadow mode.
func (c *counted) over() bool {
	return c.limit != nil && c.count > uint64(c.limit.Limit.RequestsPerUnit)
}

// DoLimit implements [limiter.RateLimitCache].
func (c *counters) DoLimit(ctx context.Context, request *pb.RateLimitRequest, limits []*config.RateLimit) []*pb.RateLimitResponse_DescriptorStatus {
	statuses := c.RateLimitCache.DoLimit(ctx, request, limits)
	c.last = make([]counted, len(limits))
	hits := utils.GetHitsAddends(request)
	for i, limit := range limits {
		c.last[i] = counted{limit: limit, status: statuses[i], hits: hits[i]}
		if limit == nil {
			continue
		}
		c.last[i].key = c.keys.GenerateCacheKey(request.Domain, request.Descriptors[i], limit, c.now.UnixNow()).Key
		if err := c.client.DoCmd(&c.last[i].count, "GET", c.last[i].key); err != nil {
			panic(err)
		}
	}
	return statuses
}

// uncount takes the hits of the last call back from counters that are not over: the difference
// between both programs for calls that are refused.
func (c *counters) uncount() error {
	for _, d := range c.last {
		if d.limit != nil && !d.over() {
			if err := c.client.DoCmd(nil, "DECRBY", d.key, d.hits); err != nil {
				return err
			}
		}
	}
	return nil
}

// refused is the overall code by the rule of envoyproxy/ratelimit since its commit 05c08d0
// (March 2026, src/service/ratelimit.go): a limit outside of quota mode is over, or there are
// limits in quota mode and all are. The version that this module has lets limits in quota mode
// pass in any case, and is otherwise the same.
func (c *counters) refused() (refused, quotaMode bool) {
	var failed, failedQuota, totalQuota int
	for _, d := range c.last {
		over, quota := d.status.GetCode() == pb.RateLimitResponse_OVER_LIMIT, d.limit != nil && d.limit.QuotaMode
		switch {
		case over && quota:
			failedQuota++
		case over:
			failed++
		}
		if quota {
			totalQuota++
		}
	}
	return failed > 0 || totalQuota > 0 && totalQuota == failedQuota, totalQuota > 0
}
