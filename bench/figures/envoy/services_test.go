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

	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// service is a rate limit service, on a Redis of its own.
type service struct {
	name   string
	client pb.RateLimitServiceClient
	redis  *testenv.Server
	counts string // the command by which it counts in Redis
	*servers.Server
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
	theirs = connect(t, &service{name: "envoyproxy/ratelimit", Server: other, redis: redis, counts: "incrby"})
	redis = testenv.StartStandalone(t, testenv.Config{})
	ours = connect(t, &service{name: "FluxGate", Server: servers.FluxgateForEnvoy(t, redis, limits), redis: redis, counts: "psetex"})
	return theirs, ours, nil
}

func connect(t *testing.T, s *service) *service {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.client = pb.NewRateLimitServiceClient(conn)
	return s
}

func (s *service) call(t *testing.T, r *pb.RateLimitRequest) *pb.RateLimitResponse {
	t.Helper()
	answer, err := s.client.ShouldRateLimit(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %v: %v", s.name, r, err)
	}
	if len(answer.GetStatuses()) != len(r.GetDescriptors()) {
		t.Fatalf("%s: %v: %v", s.name, r, answer)
	}
	return answer
}

// parse returns a descriptor such as path=/login,user=ada.
func parse(text string) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
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
