package benchmarks

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// ratelimitDomain is that of the limits in the configuration of envoyproxy/ratelimit.
const ratelimitDomain = "benchmarks"

var units = map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", day: "day"}

// ratelimitLimits has a descriptor for each limit.
func ratelimitLimits() string {
	var b strings.Builder
	b.WriteString("domain: " + ratelimitDomain + "\ndescriptors:\n")
	for _, w := range workloads {
		for i, l := range w.limits {
			fmt.Fprintf(&b, "  - { key: %s-%d, rate_limit: { unit: %s, requests_per_unit: %d } }\n", w.name, i, units[l.period], l.tokens)
		}
	}
	return b.String()
}

// envoyRatelimit decides by envoyproxy/ratelimit over gRPC, with a connection for each
// core, as Envoy has, and a cache of callers over the limit.
func envoyRatelimit(tb testing.TB, redis *testenv.Server) contender {
	tb.Helper()
	server, err := servers.Ratelimit(tb, redis, ratelimitLimits(), 1<<20)
	if err != nil {
		tb.Fatal(err)
	}
	services := make([]rls.RateLimitServiceClient, runtime.NumCPU())
	for i := range services {
		conn, err := grpc.NewClient(server.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = conn.Close() })
		services[i] = rls.NewRateLimitServiceClient(conn)
	}
	var turn atomic.Uint32
	return contender{nameRatelimit, func(ctx context.Context, w *workload, keys ...string) (bool, error) {
		req := &rls.RateLimitRequest{Domain: ratelimitDomain}
		for i, key := range keys {
			entry := &common.RateLimitDescriptor_Entry{Key: fmt.Sprintf("%s-%d", w.name, i), Value: key}
			req.Descriptors = append(req.Descriptors, &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{entry}})
		}
		answer, err := services[int(turn.Add(1))%len(services)].ShouldRateLimit(ctx, req)
		return answer.GetOverallCode() == rls.RateLimitResponse_OK, err
	}}
}
