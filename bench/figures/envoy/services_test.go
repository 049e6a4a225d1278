package envoy_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// service is a rate limit service, on a Redis of its own.
type service struct {
	client pb.RateLimitServiceClient
	*load.Service
}

// start runs envoyproxy/ratelimit without its cache of callers over the limit, and
// FluxGate, with the same configuration. The error is that envoyproxy/ratelimit could
// not be built.
func start(t *testing.T, limits string) (theirs, ours *service, err error) {
	t.Helper()
	redis := testenv.StartStandalone(t, testenv.Config{})
	other, err := servers.Ratelimit(t, redis, limits, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = connect(t, &load.Service{Name: "envoyproxy/ratelimit", Server: other, Redis: redis, Counts: "incrby"})
	redis = testenv.StartStandalone(t, testenv.Config{})
	ours = connect(t, &load.Service{Name: "FluxGate", Server: servers.FluxgateForEnvoy(t, redis, limits), Redis: redis, Counts: "psetex"})
	return theirs, ours, nil
}

func connect(t *testing.T, s *load.Service) *service {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &service{pb.NewRateLimitServiceClient(conn), s}
}

func (s *service) call(t *testing.T, r *pb.RateLimitRequest) *pb.RateLimitResponse {
	t.Helper()
	answer, err := s.client.ShouldRateLimit(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %v: %v", s.Name, r, err)
	}
	if len(answer.GetStatuses()) != len(r.GetDescriptors()) {
		t.Fatalf("%s: %v: %v", s.Name, r, answer)
	}
	return answer
}

// hits sets how much a descriptor takes; 0 only looks.
func hits(n int, d *ratelimit.RateLimitDescriptor) *ratelimit.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(uint64(n))
	return d
}

// fill replaces # by a random number below 10.
func fill(text string, random *rand.Rand) string {
	return strings.ReplaceAll(text, "#", strconv.Itoa(random.IntN(10)))
}
