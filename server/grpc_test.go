package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/rls"
)

// envoyRules has the rule set of the domain shop: so many a day for each address.
func envoyRules(t testing.TB, capacity int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, fmt.Sprintf(`id: shop
rules:
  - id: per-address
    when: {descriptor: [{key: remote_address}]}
    limitScope: COMPOSITE
    compositeKeyFields: [descriptor]
    bands: [{kind: quota, capacity: %d, period: day}]
`, capacity))
	return file
}

func startEnvoy(t testing.TB, capacity int, set ...string) *running {
	t.Helper()
	return start(t, append([]string{"server.grpc=127.0.0.1:0", "redis.enabled=false", "rules.file=" + envoyRules(t, capacity), "ratelimit.default-rule-set-id=shop"}, set...)...)
}

func dialGRPC(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func fromAddress(address string) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: address}},
	}}}
}

// codeOf is the answer to a call, or the code of its error.
func codeOf(ctx context.Context, conn *grpc.ClientConn) string {
	answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, fromAddress("10.0.0.1"))
	if err != nil {
		return status.Code(err).String()
	}
	return answer.GetOverallCode().String()
}

// While Redis is away, calls with refunds that fail are decided, and the log has few lines
// about them. The log also names the listener where authentication is missing.
func TestGRPC_RefundWithoutRedis(t *testing.T) {
	proxy := testenv.StartProxy(t, testenv.SharedStandalone(t).Addr())
	proxy.Refuse()
	r, log := startLogged(t, "server.grpc=127.0.0.1:0", "redis.uri=redis://"+proxy.Addr(), "rules.file="+envoyRules(t, 20), "ratelimit.default-rule-set-id=shop", "reload.strategy=POLLING")
	client := pb.NewRateLimitServiceClient(dialGRPC(t, r.Addr("grpc")))
	call := fromAddress("10.0.0.1")
	call.Descriptors = append(call.Descriptors, fromAddress("10.0.0.2").GetDescriptors()...)
	call.Descriptors[1].IsNegativeHits = true
	for range 20 {
		if answer, err := client.ShouldRateLimit(t.Context(), call); err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OK {
			t.Fatal(answer, err)
		}
	}
	if answer, err := client.ShouldRateLimit(t.Context(), call); err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("a call over the limit: %v, %v", answer, err)
	}
	if lines := log.Lines("hits were not given back"); len(lines) == 0 || len(lines) > 10 {
		t.Errorf("%d lines about 20 calls", len(lines))
	}
	if lines := log.Lines("no authentication"); len(lines) != 1 || !strings.Contains(lines[0], "grpc=127.0.0.1:0") {
		t.Errorf("the log says %q", lines)
	}
}

// Envoy's calls are decided, counted in metrics, and health answers.
func TestGRPC_Serves(t *testing.T) {
	r := startEnvoy(t, 2)
	conn := dialGRPC(t, r.Addr("grpc"))
	for i, want := range []string{"OK", "OK", "OVER_LIMIT"} {
		if got := codeOf(t.Context(), conn); got != want {
			t.Errorf("call %d is %s, want %s", i, got, want)
		}
	}
	health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health is %v, %v", health, err)
	}
	metrics := r.do(t, "GET", "/metrics", "").body
	for _, line := range []string{
		`fluxgate_grpc_calls_total{code="OK",method="` + rls.Method + `"} 3`,
		`fluxgate_rule_decisions_total{outcome="limited",rule="per-address",rule_set="shop"} 1`,
		`fluxgate_decision_duration_seconds_count 3`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics have no line %s", line)
		}
	}
}

// There are no streams: nothing lists the services, and health is polled.
func TestGRPC_NoStreams(t *testing.T) {
	conn := dialGRPC(t, startEnvoy(t, 2).Addr("grpc"))
	listed, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err == nil {
		_, err = listed.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("reflection says %v", err)
	}
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a watch of health says %v", err)
	}
}

// A charge that arrives after the response is debited in full, is seen by all servers, and
// can be given back.
func TestGRPC_Overdraft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `id: shop
rules:
  - id: tokens
    when: {descriptor: [{key: tokens}]}
    limitScope: COMPOSITE
    compositeKeyFields: [descriptor]
    overdraft: true
    bands: [{capacity: 800, refill: 24h}]
`)
	redis := testenv.StartStandalone(t, testenv.Config{}).URI()
	var servers []pb.RateLimitServiceClient
	for range 3 {
		r := start(t, "server.grpc=127.0.0.1:0", "redis.uri="+redis, "rules.file="+file, "ratelimit.default-rule-set-id=shop")
		servers = append(servers, pb.NewRateLimitServiceClient(dialGRPC(t, r.Addr("grpc"))))
	}
	call := func(server int, hits uint64, back bool) pb.RateLimitResponse_Code {
		answer, err := servers[server].ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: "tokens", Value: "ann"}},
			HitsAddend: wrapperspb.UInt64(hits), IsNegativeHits: back,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetOverallCode()
	}
	looks := func(want pb.RateLimitResponse_Code, when string) {
		t.Helper()
		for i := range servers {
			if got := call(i, 0, false); got != want {
				t.Errorf("%s: server %d answers %v to a look, want %v", when, i, got, want)
			}
		}
	}
	looks(pb.RateLimitResponse_OK, "at first")
	if got := call(0, 1_200, false); got != pb.RateLimitResponse_OK {
		t.Errorf("a charge of 1,200 of 800 is %v", got)
	}
	looks(pb.RateLimitResponse_OVER_LIMIT, "after a charge of 1,200")
	if got := call(1, 10, false); got != pb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("a charge in debt is %v", got)
	}
	call(2, 400, true)
	looks(pb.RateLimitResponse_OVER_LIMIT, "with a debt of 10")
	call(2, 100, true)
	looks(pb.RateLimitResponse_OK, "after the refund")
}

// Tokens are checked as on the other listeners, and roles by rule set.
func TestGRPC_Tokens(t *testing.T) {
	token := func(name, role, ruleSets string) string {
		return fmt.Sprintf("{name: %s, sha256: %s, roles: [%s], rule-sets: [%s]}", name, hashOf(name), role, ruleSets)
	}
	r := startEnvoy(t, 100, "server.auth.tokens=["+token("envoy", "check", "")+", "+token("reader", "read", "")+", "+token("other", "check", "other")+"]")
	conn := dialGRPC(t, r.Addr("grpc"))
	for token, want := range map[string]string{
		"": "Unauthenticated", "Bearer wrong": "Unauthenticated", "Bearer envoy": "OK", "Bearer reader": "PermissionDenied", "Bearer other": "PermissionDenied",
	} {
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
		}
		if got := codeOf(ctx, conn); got != want {
			t.Errorf("with the token %q: %s, want %s", token, got, want)
		}
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health needs a token: %v", err)
	}
	two := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer envoy", "authorization", "Bearer envoy")
	if got := codeOf(two, conn); got != "Unauthenticated" {
		t.Errorf("with two tokens: %s", got)
	}
}

// TLS and client certificates work over real connections.
func TestGRPC_TLS(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	cert, key := ours.issue(t, 1)
	write(t, file("cert.pem"), string(cert))
	write(t, file("key.pem"), string(key))
	write(t, file("ca.pem"), string(ours.pem))
	r := startEnvoy(t, 100, "server.tls.cert-file="+file("cert.pem"), "server.tls.key-file="+file("key.pem"), "server.tls.client-ca-file="+file("ca.pem"))
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	connect := func(by *authority) *grpc.ClientConn {
		config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		if by != nil {
			cert, key := by.issue(t, 2)
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		return dialGRPC(t, r.Addr("grpc"), grpc.WithTransportCredentials(credentials.NewTLS(config)))
	}
	for name, c := range map[string]struct {
		by   *authority
		want string
	}{"our certificate": {ours, "OK"}, "none": {nil, "Unavailable"}, "of others": {others, "Unavailable"}} {
		if got := codeOf(t.Context(), connect(c.by)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := codeOf(t.Context(), dialGRPC(t, r.Addr("grpc"))); got != "Unavailable" {
		t.Errorf("without TLS: %s", got)
	}
}

// A server that drains says so, and loses no call.
func TestGRPC_Drain(t *testing.T) {
	r := startEnvoy(t, 1_000_000, "server.drain.delay=1s")
	conn := dialGRPC(t, r.Addr("grpc"))
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	var mu sync.Mutex
	codesSeen := map[string]int{}
	for range 8 {
		own := dialGRPC(t, r.Addr("grpc"))
		calls.Go(func() {
			for ctx.Err() == nil {
				code := codeOf(context.Background(), own)
				mu.Lock()
				codesSeen[code]++
				mu.Unlock()
				if code != "OK" {
					return // the server has gone: a load balancer would take another
				}
			}
		})
	}
	testenv.Eventually(t, "calls are answered", func() bool { mu.Lock(); defer mu.Unlock(); return codesSeen["OK"] > 100 })
	r.stop()
	testenv.Eventually(t, "it is not ready", func() bool {
		h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		return err == nil && h.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING
	})
	began := time.Now()
	if err := <-r.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	r.ended <- nil
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	stop()
	calls.Wait()
	for code := range codesSeen {
		if code != "OK" && code != "Unavailable" {
			t.Errorf("calls while the server ended: %v", codesSeen)
		}
	}
}

// Connections over the limit are closed and do not disturb the others.
func TestGRPC_Connections(t *testing.T) {
	r := startEnvoy(t, 1_000_000, "server.max-connections=10")
	first := dialGRPC(t, r.Addr("grpc"))
	if got := codeOf(t.Context(), first); got != "OK" {
		t.Fatal(got)
	}
	for range 30 {
		conn, err := net.Dial("tcp", r.Addr("grpc")) //nolint:noctx // at once
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	for range 10 {
		if got := codeOf(t.Context(), first); got != "OK" {
			t.Errorf("a call on an old connection is %s", got)
		}
	}
}

// Messages that are too large, are compressed or have too many entries are refused, as are
// calls with many header fields, and the server goes on.
func TestGRPC_Messages(t *testing.T) {
	r := startEnvoy(t, 1_000_000)
	conn := dialGRPC(t, r.Addr("grpc"))
	giant := fromAddress(strings.Repeat("x", 2<<20))
	if _, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), giant); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a giant message: %v", err)
	}
	if _, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), giant, grpc.UseCompressor(gzip.Name)); status.Code(err) != codes.Unimplemented {
		t.Errorf("a giant message in few bytes: %v", err)
	}
	for fields, want := range map[int]codes.Code{50: codes.OK, 65: codes.ResourceExhausted} {
		md := metadata.MD{}
		for range fields {
			md.Append("x", "y")
		}
		if _, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(metadata.NewOutgoingContext(t.Context(), md), fromAddress("10.0.0.1")); status.Code(err) != want {
			t.Errorf("%d header fields: %v", fields, err)
		}
	}
	// What a client can make of one header, repeated in all descriptors that Envoy has.
	long := fromAddress(strings.Repeat("x", 60<<10))
	for range 15 {
		long.Descriptors = append(long.Descriptors, long.Descriptors[0])
	}
	if answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), long); err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OK {
		t.Errorf("a long header: %v", err)
	}
	many := fromAddress("10.0.0.1")
	for i := range 5_000 {
		many.Descriptors[0].Entries = append(many.Descriptors[0].Entries, &ratelimit.RateLimitDescriptor_Entry{Key: fmt.Sprint(i), Value: "x"})
	}
	if answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), many); err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("many entries: %v, %v", answer, err)
	}
	if got := codeOf(t.Context(), conn); got != "OK" {
		t.Errorf("after them: %s", got)
	}
}

// endOf begins so many calls of each method, whose message does not come, and returns the
// statuses that they end with.
func endOf(t *testing.T, addr string, calls int, methods ...string) map[string]string {
	t.Helper()
	conn, err := net.Dial("tcp", addr) //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	streams := map[uint32]string{}
	for _, method := range methods {
		for range calls {
			var block bytes.Buffer
			encoder := hpack.NewEncoder(&block)
			for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
				_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}) // to memory
			}
			stream := uint32(2*len(streams) + 1)
			streams[stream] = method
			if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	statuses := map[string]string{}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	for len(streams) > 0 {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%d calls have not ended: %v", len(streams), err)
		}
		if headers, ok := frame.(*http2.MetaHeadersFrame); ok && headers.StreamEnded() {
			for _, f := range headers.Fields {
				if f.Name == "grpc-status" {
					statuses[streams[headers.StreamID]] = f.Value
				}
			}
			delete(streams, headers.StreamID)
		}
	}
	return statuses
}

// Calls of every method that are begun and never sent end, and so does the memory for them.
func TestGRPC_OpenStreams(t *testing.T) {
	t.Parallel() // it mostly waits
	r := startEnvoy(t, 1_000_000)
	methods := []string{rls.Method, healthpb.Health_Check_FullMethodName}
	for method, got := range endOf(t, r.Addr("grpc"), 50, methods...) {
		if want := fmt.Sprint(int(codes.DeadlineExceeded)); got != want {
			t.Errorf("%s ends with %s, want %s", method, got, want)
		}
	}
}

// A caller without credentials is refused before its message has come, and counted.
func TestGRPC_RefusedBeforeTheMessage(t *testing.T) {
	r := startEnvoy(t, 1, "server.auth.tokens=[{name: envoy, sha256: "+hashOf("envoy")+", roles: [check, read]}]")
	began := time.Now()
	for method, got := range endOf(t, r.Addr("grpc"), 1, rls.Method) {
		if want := fmt.Sprint(int(codes.Unauthenticated)); got != want {
			t.Errorf("%s ends with %s, want %s", method, got, want)
		}
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("they ended after %v", took)
	}
	if line := `fluxgate_grpc_calls_total{code="Unauthenticated",method="` + rls.Method + `"} 1`; !strings.Contains(r.do(t, "GET", "/metrics", "", "Authorization", "Bearer envoy").body, line) {
		t.Errorf("the metrics have no line %s", line)
	}
}

// Health takes no large message.
func TestGRPC_LargeHealthMessage(t *testing.T) {
	health := healthpb.NewHealthClient(dialGRPC(t, startEnvoy(t, 1).Addr("grpc")))
	asked := &healthpb.HealthCheckRequest{Service: strings.Repeat("x", 8<<10)}
	if _, err := health.Check(t.Context(), asked); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a check of 8 KiB: %v", err)
	}
}

// Many calls at once are answered: the bound of messages that arrive is far above them.
func TestGRPC_ManyCallsAtOnce_NoRace(t *testing.T) {
	r := startEnvoy(t, 1_000_000)
	var calls sync.WaitGroup
	var failed atomic.Int64
	begin := make(chan struct{})
	for range 3 {
		conn := dialGRPC(t, r.Addr("grpc"))
		for i := range 900 {
			calls.Go(func() {
				<-begin
				if _, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), fromAddress(fmt.Sprintf("10.0.0.%d", i%250))); err != nil {
					failed.Add(1)
					t.Log(err)
				}
			})
		}
	}
	close(begin)
	calls.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of 2,700 calls failed", n)
	}
}

// An Envoy with as many concurrent calls as a connection may have gets all answers:
// the bound on unread answers does not affect clients that read.
func TestGRPC_ConcurrentCalls(t *testing.T) {
	r := startEnvoy(t, 1_000_000)
	client := pb.NewRateLimitServiceClient(dialGRPC(t, r.Addr("grpc")))
	var calls sync.WaitGroup
	var failed atomic.Pointer[error]
	for range 1_000 {
		calls.Go(func() {
			for range 10 {
				if _, err := client.ShouldRateLimit(t.Context(), fromAddress("10.0.0.1")); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	calls.Wait()
	if err := failed.Load(); err != nil {
		t.Error(*err)
	}
}
