package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/xdsserver"
)

// get is the status and the body of a page, 0 if there is none.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// The program under the name ratelimit, with the environment that Envoy Gateway gives to its
// rate limit service, takes the configuration of its xDS server, counts in its Redis, and
// serves at its ports: the image is all that is swapped.
func TestRatelimit_EnvoyGateway(t *testing.T) {
	certs := testenv.NewCertificates(t)
	xds := xdsserver.New(t, certs)
	redis := testenv.StartStandalone(t, testenv.Config{MutualTLS: true, Password: "s3cret/pass:word"})
	program := filepath.Join(t.TempDir(), "ratelimit")
	if err := os.Symlink(testenv.Fluxgate(t), program); err != nil {
		t.Fatal(err)
	}
	http, calls, metrics := testenv.FreeAddr(t), testenv.FreeAddr(t), testenv.FreeAddr(t)
	_, httpPort, _ := net.SplitHostPort(http)
	_, callsPort, _ := net.SplitHostPort(calls)
	for name, value := range map[string]string{
		"RUNTIME_ROOT": "/data", "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_IGNOREDOTFILES": "true", "RUNTIME_WATCH_ROOT": "false",
		"LOG_LEVEL": "info", "USE_STATSD": "false", "CONFIG_TYPE": "GRPC_XDS_SOTW", "FORCE_START_WITHOUT_INITIAL_CONFIG": "true",
		"CONFIG_GRPC_XDS_SERVER_URL": xds.Addr(), "CONFIG_GRPC_XDS_NODE_ID": xdsserver.Node,
		"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": certs.CertFile, "GRPC_SERVER_TLS_KEY": certs.KeyFile, "GRPC_SERVER_TLS_CA_CERT": certs.CAFile,
		"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT": certs.CertFile, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": certs.KeyFile,
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT": certs.CAFile,
		"REDIS_SOCKET_TYPE":                 "tcp", "REDIS_URL": redis.Addr(), "REDIS_AUTH": "default:s3cret/pass:word",
		"REDIS_TLS": "true", "REDIS_TLS_CLIENT_CERT": redis.Certificates().CertFile, "REDIS_TLS_CLIENT_KEY": redis.Certificates().KeyFile, "REDIS_TLS_CACERT": redis.Certificates().CAFile,
		"USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": metrics, "PROMETHEUS_MAPPER_YAML": "/etc/statsd-exporter/conf.yaml",
		"PORT": httpPort, "GRPC_PORT": callsPort, "HOST": "127.0.0.1", "GRPC_HOST": "127.0.0.1", "FLUXGATE_SERVER_DRAIN_DELAY": "0s",
	} {
		t.Setenv(name, value)
	}
	run := testenv.StartProgram(t, program)
	healthy := func() bool { status, _ := get(t, "http://"+http+"/healthcheck"); return status == 200 }
	testenv.Eventually(t, "the program is healthy without a configuration", func() bool {
		if !run.Running() {
			t.Fatalf("it has ended:\n%s", run.Log())
		}
		return healthy()
	})

	xds.Set(t, "1", &pb.RateLimitConfig{Name: "default/eg/http", Domain: "default/eg/http", Descriptors: []*pb.RateLimitDescriptor{{
		Key: "route", Value: "route", Descriptors: []*pb.RateLimitDescriptor{{
			Key: "rule-0-match-0", RateLimit: &pb.RateLimitPolicy{Unit: pb.RateLimitUnit_DAY, RequestsPerUnit: 2},
		}},
	}}})
	xds.Run(t)
	testenv.Eventually(t, "the configuration is accepted", func() bool { return xds.Acked("1") })
	conn, err := grpc.NewClient(calls, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: certs.ClientConfig().RootCAs, MinVersion: tls.VersionTLS12})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	decide := func(user string) string {
		answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "default/eg/http", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "route", Value: "route"}, {Key: "rule-0-match-0", Value: user}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetOverallCode().String()
	}
	for i, want := range []string{"OK", "OK", "OVER_LIMIT"} {
		if got := decide("ada"); got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
	if got := decide("bob"); got != "OK" {
		t.Errorf("another user: %s", got)
	}
	if status, text := get(t, "http://"+metrics+"/metrics"); status != 200 || !strings.Contains(text, `fluxgate_grpc_calls_total{code="OK"`) {
		t.Errorf("metrics: %d %s", status, text)
	}
	if keys, err := redis.Do(t.Context(), "KEYS", "fluxgate:*"); err != nil || !strings.Contains(fmt.Sprint(keys), "fluxgate") {
		t.Errorf("Redis has the buckets %v, %v", keys, err)
	}
	if _, health := get(t, "http://"+http+"/v1/health"); !strings.Contains(health, `"status": "up"`) || strings.Contains(health, "degraded") {
		t.Errorf("health is %s", health)
	}
	if !healthy() {
		t.Error("it is not healthy")
	}
	log := run.Log()
	for _, want := range []string{"variable=PROMETHEUS_MAPPER_YAML", "variable=GRPC_SERVER_TLS_CA_CERT", "accepted the rate limit configuration", "rules=xds"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q", want)
		}
	}
	if strings.Contains(log, "s3cret") || strings.Contains(log, "pass:word") {
		t.Error("the log has the password of Redis")
	}
	if err := run.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A variable whose meaning cannot be kept ends the program, with its name.
func TestRatelimit_Refused(t *testing.T) {
	t.Setenv("BACKEND_TYPE", "memcache")
	t.Setenv("REDIS_AUTH", "s3cret")
	code, _, stderr := call(t, "ratelimit")
	if code != exitError || !strings.Contains(stderr, "BACKEND_TYPE: must be redis") || strings.Contains(stderr, "s3cret") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := call(t, "ratelimit", "serve"); code != exitUsage {
		t.Errorf("with an argument: exit code %d: %s", code, stderr)
	}
}
