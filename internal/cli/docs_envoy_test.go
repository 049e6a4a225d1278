package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/xdsserver"
	"github.com/fluxgate/fluxgate/server/config"
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

// gatewayEnv are the variables that an example gives to the rate limit service of Envoy
// Gateway. The example may be in the values of its chart.
func gatewayEnv(t *testing.T, text string) map[string]string {
	t.Helper()
	type gateway struct {
		Provider struct {
			Kubernetes struct {
				RateLimitDeployment struct {
					Container struct {
						Env []struct{ Name, Value string }
					}
				} `yaml:"rateLimitDeployment"`
			}
		}
	}
	var example struct {
		gateway `yaml:",inline"`
		Config  struct {
			EnvoyGateway gateway `yaml:"envoyGateway"`
		}
	}
	if err := yaml.Unmarshal([]byte(text), &example); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, g := range []gateway{example.gateway, example.Config.EnvoyGateway} {
		for _, e := range g.Provider.Kubernetes.RateLimitDeployment.Container.Env {
			env[e.Name] = e.Value
		}
	}
	return env
}

// yamlBlock is the first YAML block of a text.
func yamlBlock(text string) string {
	_, block, _ := strings.Cut(text, "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	return block
}

// The documented configuration of an xDS server is valid, with certificates at other
// places.
func TestDocs_EnvoyXDS(t *testing.T) {
	certs := testenv.NewCertificates(t)
	text := strings.NewReplacer("/certs/ca.crt", certs.CAFile, "/certs/tls.crt", certs.CertFile, "/certs/tls.key", certs.KeyFile).
		Replace(yamlBlock(section(t, "docs/envoy.md", "xDS configuration")))
	c, err := config.Load(config.Sources{File: write(t, t.TempDir(), "fluxgate.yaml", text)})
	if err == nil {
		err = c.Check()
	}
	if err != nil || c.RuleSource() != config.SourceXDS || c.Rules.XDS.TLS.CAFile != certs.CAFile {
		t.Errorf("%v\n%s", err, text)
	}
}

// The settings for the variables of envoyproxy/ratelimit exist.
func TestDocs_EnvoyVariables(t *testing.T) {
	reference := readFile(t, "docs/configuration.md")
	found := 0
	for row := range strings.Lines(readFile(t, "docs/envoy-variables.md")) {
		cells := strings.Split(row, " | ")
		for _, key := range regexp.MustCompile("`([a-z]+(?:\\.[a-z-]+)+)(?:: [^`]+)?`").FindAllStringSubmatch(cells[len(cells)-1], -1) {
			if found++; len(cells) != 2 || !strings.Contains(reference, "| `"+key[1]+"` |") {
				t.Errorf("%s is not a setting:\n%s", key[1], row)
			}
		}
	}
	if found < 35 {
		t.Errorf("%d settings were found", found)
	}
}

// The program under the name ratelimit, with the variables that the file in docs/envoy.md
// adds to those of Envoy Gateway, takes the configuration of its xDS server, counts in its Redis, and
// serves at its ports.
func TestDocs_EnvoyGateway(t *testing.T) {
	const file = "deploy/helm/examples/envoy-gateway/gateway-helm-values.yaml"
	documented := gatewayEnv(t, readFile(t, file))
	if !strings.Contains(section(t, "docs/envoy.md", "In place of the rate limit service of Envoy Gateway"), "(../"+file+")") || len(documented) == 0 {
		t.Errorf("docs/envoy.md does not lead to %s, which has %v", file, documented)
	}
	certs := testenv.NewCertificates(t)
	xds := xdsserver.New(t, certs)
	redis := testenv.StartStandalone(t, testenv.Config{})
	program := filepath.Join(t.TempDir(), "ratelimit")
	if err := os.Symlink(testenv.Fluxgate(t), program); err != nil {
		t.Fatal(err)
	}
	http, calls, metrics := testenv.FreeAddr(t), testenv.FreeAddr(t), testenv.FreeAddr(t)
	here := strings.NewReplacer(
		":8081", calls, ":19001", metrics, "/certs/ca.crt", certs.CAFile, "/certs/tls.crt", certs.CertFile, "/certs/tls.key", certs.KeyFile,
		"redis.redis-system.svc.cluster.local:6379", redis.Addr(), "envoy-gateway:18001", xds.Addr(),
	)
	for name, value := range documented {
		t.Setenv(name, here.Replace(value))
	}
	for name, value := range map[string]string{ // those of Envoy Gateway have no effect
		"LOG_LEVEL": "trace", "CONFIG_TYPE": "GRPC_XDS_SOTW", "REDIS_URL": "127.0.0.1:1", "REDIS_PORT": "tcp://10.0.0.3:6379", "PORT": "1", "GRPC_PORT": "1",
		"FLUXGATE_SERVER_HTTP": http, "FLUXGATE_SERVER_ADMIN": "", "FLUXGATE_SERVER_DRAIN_DELAY": "0s", "FLUXGATE_REDIS_TIMEOUT": "5s",
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
	if log := run.Log(); !strings.Contains(log, "accepted the rate limit configuration") || !strings.Contains(log, "rules=xds") {
		t.Errorf("the log has\n%s", log)
	}
	if err := run.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
