// Package bare_test measures what a decision costs beyond its transport and its call of Redis:
// see make figures-bare. The controls are a server that answers the same bytes and decides
// nothing, and an empty script with the same keys and arguments.
package bare_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) {
	figure.Run(t, func(report *figure.Report) {
		t.Run("service", func(t *testing.T) { serviceFigures(t, report) })
		t.Run("redis", func(t *testing.T) { redisFigures(t, report) })
		t.Run("allocations", func(t *testing.T) { allocationFigures(t, report) })
		t.Run("profile", profileFigures)
	})
}

const oneRule = `
id: api-limits
rules:
  - { id: one, path: /one, limitScope: USER_ID, bands: [{ capacity: 1000000, refill: 1h }] }
`

const check = `{"userId":"USER","method":"GET","path":"/one"}`

// serviceFigures compares a server that decides with one that does not, over gRPC and HTTP,
// and prints envoyproxy/ratelimit beside them.
func serviceFigures(t *testing.T, report *figure.Report) {
	grpcRedis, httpRedis := testenv.StartStandalone(t, testenv.Config{}), testenv.StartStandalone(t, testenv.Config{})
	forEnvoy := &load.Service{
		Name: "FluxGate, gRPC", Server: servers.FluxgateForEnvoy(t, grpcRedis, load.Plenty), Redis: grpcRedis, Counts: "psetex",
	}
	forHTTP := &load.Service{
		Name: "FluxGate, HTTP", Server: servers.Fluxgate(t, httpRedis, oneRule, "redis.leases=off"), Redis: httpRedis, Counts: "psetex",
	}
	server := servers.Bare(t, answerHTTP(t, "http://"+forHTTP.HTTP+"/v1/check"), answerGRPC(t, forEnvoy.GRPC))
	bare := &load.Service{Name: "bare", Server: server}

	calls := load.NewCalls(t, 1)
	runs := []load.Run{bare.Calling(t, calls, 0), forEnvoy.Calling(t, calls, 0)}
	redis := testenv.StartStandalone(t, testenv.Config{})
	other, err := servers.Ratelimit(t, redis, load.Plenty, 0)
	if err == nil {
		s := &load.Service{Name: "envoyproxy/ratelimit", Server: other, Redis: redis, Counts: "incrby"}
		runs = append(runs, s.Calling(t, calls, 0))
	}
	all := load.Alternate(t, runs...)
	report.AtMost("bare-grpc-cpu", load.Ratio(all[1], all[0], load.CPUOf), 1.6, "×")
	if err == nil {
		report.Print("bare-grpc-cpu-envoy-ratelimit", load.Ratio(all[2], all[0], load.CPUOf), "×")
	}
	names := []string{"bare", "fluxgate", "envoy-ratelimit"}
	for i, loads := range all {
		printCosts(report, "grpc-"+names[i], loads)
	}
	posts := load.Alternate(t, bare.Posting(t, "http://"+bare.HTTP+"/v1/check", check, 1),
		forHTTP.Posting(t, "http://"+forHTTP.HTTP+"/v1/check", check, 1), bare.Posting(t, "http://"+bare.HTTP+"/waiting", check, 1))
	report.AtMost("bare-http-cpu", load.Ratio(posts[1], posts[0], load.CPUOf), 1.8, "×")
	report.Print("bare-http-cpu-waiting", load.Ratio(posts[1], posts[2], load.CPUOf), "×") // over a handler that waits
	names[2] = "bare-waiting"
	for i, loads := range posts {
		printCosts(report, "http-"+names[i], loads)
	}
}

// printCosts prints the processor time of a request and the throughput.
func printCosts(report *figure.Report, name string, loads []load.Load) {
	const micro = 1_000
	report.Print("bare-"+name+"-us", load.Median(loads, load.CPUOf)/micro, " µs")
	if redis := load.Median(loads, load.RedisOf); redis > 0 {
		report.Print("bare-"+name+"-redis-us", redis/micro, " µs")
	}
	report.Print("bare-"+name+"-per-second", load.Median(loads, load.PerSecondOf), "")
}

// answerHTTP returns the answer to a check.
func answerHTTP(t *testing.T, url string) []byte {
	t.Helper()
	body := strings.ReplaceAll(check, "USER", "user-1-10000")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"remaining"`)) {
		t.Fatalf("%s %s: %v", res.Status, answer, err)
	}
	return answer
}

// answerGRPC returns the answer to a call with one descriptor.
func answerGRPC(t *testing.T, addr string) []byte {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{
		Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{load.Descriptor("user=user-10000")},
	})
	if err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OK || len(answer.GetStatuses()) != 1 {
		t.Fatalf("%v: %v", answer, err)
	}
	encoded, err := proto.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}
