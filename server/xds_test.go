package server_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/xdsserver"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/doctor"
)

func startXDS(t testing.TB, at *xdsserver.Server, set ...string) (*running, *testenv.LogBuffer) {
	t.Helper()
	return startLogged(t, append([]string{"server.grpc=127.0.0.1:0", "redis.enabled=false", "rules.xds.server=" + at.Addr(), "rules.xds.node-id=" + xdsserver.Node}, set...)...)
}

// below is an entry of a configuration, with those that can follow it.
func below(key, value string, next ...*pb.RateLimitDescriptor) *pb.RateLimitDescriptor {
	return &pb.RateLimitDescriptor{Key: key, Value: value, Descriptors: next}
}

// daily is an entry with a limit.
func daily(key, value string, requests uint32) *pb.RateLimitDescriptor {
	return &pb.RateLimitDescriptor{Key: key, Value: value, RateLimit: &pb.RateLimitPolicy{Unit: pb.RateLimitUnit_DAY, RequestsPerUnit: requests}}
}

func shadow(d *pb.RateLimitDescriptor) *pb.RateLimitDescriptor {
	d.ShadowMode = true
	return d
}

func domain(name string, descriptors ...*pb.RateLimitDescriptor) *pb.RateLimitConfig {
	return &pb.RateLimitConfig{Name: name, Domain: name, Descriptors: descriptors}
}

// decide is the answer to a call whose descriptors are written as key=value,key=value.
// Each has the code of its status.
func decide(t testing.TB, conn *grpc.ClientConn, domain string, descriptors ...string) string {
	t.Helper()
	request := &rls.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		d := &ratelimit.RateLimitDescriptor{}
		for entry := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		request.Descriptors = append(request.Descriptors, d)
	}
	answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request)
	if err != nil {
		return err.Error()
	}
	codes := []string{answer.GetOverallCode().String()}
	for _, s := range answer.GetStatuses() {
		codes = append(codes, s.GetCode().String())
	}
	return strings.Join(codes, " ")
}

const (
	pass, over       = "OK OK", "OVER_LIMIT OVER_LIMIT"
	gatewayRoute     = "httproute/default/shop/rule/0/match/0/*" // of a route without a host name
	wildcardRoute    = "httproute/default/shop/rule/0/match/0/*_example_com"
	gatewayListener  = "default/eg/http"
	gatewayPolicy    = "default/shared-policy"
	policyRule       = gatewayPolicy + "/rule/0"
	route            = gatewayRoute + "=" + gatewayRoute
	insideNetwork    = route + ",masked_remote_address=192.168.0.0/16"
	otherThanNetwork = route + ",masked_remote_address=invert:192.168.0.0/24"
)

// The configurations that Envoy Gateway makes of its policies decide the calls of the
// proxies that it configures, whose descriptors it makes too.
func TestXDS_EnvoyGateway(t *testing.T) {
	at := func(next ...*pb.RateLimitDescriptor) *pb.RateLimitConfig {
		return domain(gatewayListener, below(gatewayRoute, gatewayRoute, next...))
	}
	type call struct {
		domain      string
		descriptors []string
		want        string
	}
	const r, in, out = route, insideNetwork, otherThanNetwork
	to := func(want string, descriptors ...string) call { return call{gatewayListener, descriptors, want} }
	for _, c := range []struct {
		name    string
		configs []*pb.RateLimitConfig
		calls   []call
	}{
		{"all requests of a route", []*pb.RateLimitConfig{at(daily("rule-0-match--1", "rule-0-match--1", 2))}, []call{
			to(pass, r+",rule-0-match--1=rule-0-match--1"), to(pass, r+",rule-0-match--1=rule-0-match--1"), to(over, r+",rule-0-match--1=rule-0-match--1"),
			to(pass, r), // no limit ends there
		}},
		{"routes of any host, of all hosts of a domain and of one host", []*pb.RateLimitConfig{domain(gatewayListener,
			below(gatewayRoute, gatewayRoute, daily("rule-0-match-0", "", 1)), below(wildcardRoute, wildcardRoute, daily("rule-0-match-0", "", 2)))}, []call{
			to(pass, r+",rule-0-match-0=ada"), to(over, r+",rule-0-match-0=ada"),
			to(pass, wildcardRoute+"="+wildcardRoute+",rule-0-match-0=ada"), to(pass, wildcardRoute+"="+wildcardRoute+",rule-0-match-0=ada"),
			to(over, wildcardRoute+"="+wildcardRoute+",rule-0-match-0=ada"),
			to(pass, strings.ReplaceAll(r, "*", "www_example_com")+",rule-0-match-0=ada"), to(pass, strings.ReplaceAll(r, "*", "www_example_com")+",rule-0-match-0=ada"),
		}},
		{"a header with a value", []*pb.RateLimitConfig{at(daily("rule-0-match-0", "rule-0-match-0", 1))}, []call{
			to(pass, r+",rule-0-match-0=rule-0-match-0"), to(over, r+",rule-0-match-0=rule-0-match-0"),
			to(pass, r+",rule-0-match-0=other"), to(pass, r+",rule-1-match-0=rule-1-match-0"),
		}},
		{"distinct values of a header", []*pb.RateLimitConfig{at(daily("rule-0-match-0", "", 1))}, []call{
			to(pass, r+",rule-0-match-0=ada"), to(over, r+",rule-0-match-0=ada"), to(pass, r+",rule-0-match-0=bob"),
		}},
		{"several headers and an address", []*pb.RateLimitConfig{at(
			below("rule-0-match-0", "rule-0-match-0", below("rule-0-match-1", "rule-0-match-1", daily("masked_remote_address", "0.0.0.0/0", 1))))}, []call{
			to(pass, r+",rule-0-match-0=rule-0-match-0,rule-0-match-1=rule-0-match-1,masked_remote_address=0.0.0.0/0"),
			to(over, r+",rule-0-match-0=rule-0-match-0,rule-0-match-1=rule-0-match-1,masked_remote_address=0.0.0.0/0"),
			to(pass, r+",rule-0-match-0=rule-0-match-0,rule-0-match-1=rule-0-match-1"),
		}},
		{"methods", []*pb.RateLimitConfig{at(daily("rule-0-method", "rule-0-method", 1), daily("rule-1-method", "rule-1-method", 2))}, []call{
			to(pass, r+",rule-0-method=rule-0-method"), to(over, r+",rule-0-method=rule-0-method"),
			to(pass, r+",rule-1-method=rule-1-method"), to(pass, r+",rule-1-method=rule-1-method"), to(over, r+",rule-1-method=rule-1-method"),
		}},
		{"a network", []*pb.RateLimitConfig{at(daily("masked_remote_address", "192.168.0.0/16", 1))}, []call{
			to(pass, in), to(over, in), to(pass, r+",masked_remote_address=10.0.0.0/8"),
		}},
		{"each address of a network", []*pb.RateLimitConfig{at(below("masked_remote_address", "192.168.0.0/16", daily("remote_address", "", 1)))}, []call{
			to(pass, in+",remote_address=192.168.0.1"), to(over, in+",remote_address=192.168.0.1"), to(pass, in+",remote_address=192.168.0.2"), to(pass, in),
		}},
		{"addresses outside of a network", []*pb.RateLimitConfig{at(daily("masked_remote_address", "invert:192.168.0.0/24", 1))}, []call{
			to(pass, out), to(over, out), to(pass, r+",masked_remote_address=192.168.0.0/24"),
		}},
		{"a rule in shadow mode", []*pb.RateLimitConfig{at(shadow(below("rule-0-match-0", "rule-0-match-0", shadow(daily("rule-0-match-1", "rule-0-match-1", 1)))))}, []call{
			to(pass, r+",rule-0-match-0=rule-0-match-0,rule-0-match-1=rule-0-match-1"), to(pass, r+",rule-0-match-0=rule-0-match-0,rule-0-match-1=rule-0-match-1"),
		}},
		{"a limit that routes share", []*pb.RateLimitConfig{
			at(daily("rule-0-match-0", "rule-0-match-0", 1)), domain(gatewayPolicy, below(policyRule, policyRule, daily("rule-0-match-0", "", 1))),
		}, []call{
			{gatewayPolicy, []string{policyRule + "=" + policyRule + ",rule-0-match-0=ada"}, pass},
			{gatewayPolicy, []string{policyRule + "=" + policyRule + ",rule-0-match-0=ada"}, over},
			to(pass, r+",rule-0-match-0=rule-0-match-0"), // the other domain counts alone
		}},
		{"several rules of one route", []*pb.RateLimitConfig{at(daily("rule-0-match-0", "rule-0-match-0", 3), daily("rule-1-match-0", "rule-1-match-0", 1))}, []call{
			to("OK OK OK", r+",rule-0-match-0=rule-0-match-0", r+",rule-1-match-0=rule-1-match-0"),
			to("OVER_LIMIT OK OVER_LIMIT", r+",rule-0-match-0=rule-0-match-0", r+",rule-1-match-0=rule-1-match-0"),
			// The refused call has taken nothing: two of three are left.
			to(pass, r+",rule-0-match-0=rule-0-match-0"), to(pass, r+",rule-0-match-0=rule-0-match-0"), to(over, r+",rule-0-match-0=rule-0-match-0"),
		}},
		{"an unknown domain", []*pb.RateLimitConfig{at(daily("rule-0-match-0", "", 1))}, []call{{"default/eg/other", []string{r}, pass}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			server := xdsserver.Start(t, nil)
			server.Set(t, "1", c.configs...)
			running, _ := startXDS(t, server)
			testenv.Eventually(t, "the configuration is accepted", func() bool { return server.Acked("1") })
			conn := dialGRPC(t, running.Addr("grpc"))
			for i, call := range c.calls {
				if got := decide(t, conn, call.domain, call.descriptors...); got != call.want {
					t.Errorf("call %d, %s: %s, want %s", i, call.descriptors, got, call.want)
				}
			}
		})
	}
}

// status is the state of a probe.
func (r *running) status(t testing.TB, path string) int {
	t.Helper()
	return r.do(t, http.MethodGet, path, "").status
}

// awaitDial waits until the first connection to the xDS server has failed.
func (r *running) awaitDial(t testing.TB) {
	t.Helper()
	testenv.Eventually(t, "the xDS server was dialled", func() bool { return strings.Contains(r.Health(t.Context()).Rules.Error, "connection refused") })
}

func (r *running) wantHealth(t testing.TB, status, reason string) {
	t.Helper()
	rules := r.Health(t.Context()).Rules
	if rules.Status != status || !strings.Contains(rules.Error, reason) {
		t.Errorf("the rules are %s: %s; want %s: %s", rules.Status, rules.Error, status, reason)
	}
}

// A server whose xDS server is away starts, is not ready and limits nothing. It applies the
// configuration when it comes, keeps it while the server is away or sends an invalid one,
// and stops to apply one that is removed. Health tells all of it.
func TestXDS_Lifecycle(t *testing.T) {
	t.Parallel() // it mostly waits
	xds := xdsserver.New(t, nil)
	r, log := startXDS(t, xds)
	conn := dialGRPC(t, r.Addr("grpc"))
	for path, want := range map[string]int{"/readyz": 503, "/healthcheck": 500, "/v1/health": 503} {
		if got := r.status(t, path); got != want {
			t.Errorf("%s without rules: %d, want %d", path, got, want)
		}
	}
	r.awaitDial(t)
	r.wantHealth(t, "down", "connection refused")
	if got := decide(t, conn, "shop", "user=ada"); got != pass {
		t.Errorf("a call without rules: %s", got)
	}

	xds.Set(t, "1", domain("shop", daily("user", "", 2)))
	xds.Run(t)
	testenv.Eventually(t, "the server is ready", func() bool { return r.status(t, "/healthcheck") == 200 })
	r.wantHealth(t, "up", "")
	limit := func() string {
		answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "eve"}},
		}}})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit())
	}
	testenv.Eventually(t, "the limit is 2", func() bool { return limit() == "2" })

	xds.Set(t, "2", domain("shop", daily("user", "", 3)))
	testenv.Eventually(t, "the limit is 3", func() bool { return limit() == "3" })

	xds.Set(t, "3", domain("shop", below("", "")))
	testenv.Eventually(t, "the configuration is refused", func() bool { return len(xds.Nacks()) > 0 })
	r.wantHealth(t, "degraded", `resource "shop": domain "shop": descriptors[0].key: is required`)
	if got := limit(); got != "3" || r.status(t, "/healthcheck") != 200 {
		t.Errorf("after an invalid configuration the limit is %s, want 3", got)
	}

	xds.Stop()
	testenv.Eventually(t, "the loss is noticed", func() bool { return strings.Contains(r.Health(t.Context()).Rules.Error, "the connection failed") })
	r.wantHealth(t, "degraded", "the connection failed")
	if got := limit(); got != "3" || r.status(t, "/healthcheck") != 200 {
		t.Errorf("without the xDS server the limit is %s, want 3", got)
	}

	xds.Set(t, "4", domain("blog", daily("user", "", 5)))
	xds.Run(t)
	testenv.Eventually(t, "the removed limit is gone", func() bool { return limit() == "0" })
	r.wantHealth(t, "up", "")
	if lines := log.Lines("lost the connection to the xDS server"); len(lines) != 1 {
		t.Errorf("%d lines about one loss", len(lines))
	}
}

// With start-without-rules the server is ready before the first configuration.
func TestXDS_StartWithoutRules(t *testing.T) {
	r, _ := startXDS(t, xdsserver.New(t, nil), "rules.xds.start-without-rules=true")
	if got := r.status(t, "/healthcheck"); got != 200 {
		t.Errorf("/healthcheck: %d", got)
	}
	r.awaitDial(t)
	r.wantHealth(t, "degraded", "connection refused")
}

// The doctor says what an xDS server has, or why it does not answer.
func TestDiagnose_XDS(t *testing.T) {
	xds := xdsserver.New(t, nil)
	diagnose := func() doctor.Finding {
		c, err := config.Load(config.Sources{Set: []string{"redis.enabled=false", "rules.xds.server=" + xds.Addr(), "rules.xds.node-id=" + xdsserver.Node, "server.http=127.0.0.1:0", "server.admin="}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range doctor.Diagnose(t.Context(), c) {
			if f.Part == "rules" {
				return f
			}
		}
		return doctor.Finding{}
	}
	if f := diagnose(); f.Severity != doctor.Wrong || !strings.Contains(f.Says, "connection refused") {
		t.Errorf("without the server: %+v", f)
	}
	xds.Set(t, "1", domain("shop", daily("user", "", 2)))
	xds.Run(t)
	if f := diagnose(); f.Severity != doctor.Good || !strings.Contains(f.Says, "1 rate limit configuration") {
		t.Errorf("with the server: %+v", f)
	}
}

// TLS can be for some listeners only, and the metrics listener serves nothing but metrics
// and health.
func TestListeners_TLS(t *testing.T) {
	certs := testenv.NewCertificates(t)
	r := startEnvoy(t, 1, "server.metrics=127.0.0.1:0", "server.tls.listeners=grpc",
		"server.tls.cert-file="+certs.CertFile, "server.tls.key-file="+certs.KeyFile)
	conn := dialGRPC(t, r.Addr("grpc"), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: certs.ClientConfig().RootCAs, MinVersion: tls.VersionTLS12})))
	if got := codeOf(t.Context(), conn); got != "OK" {
		t.Errorf("a call over TLS: %s", got)
	}
	metrics := "http://" + r.Addr("metrics")
	for url, want := range map[string]int{"/healthcheck": 200, "/metrics": 200, metrics + "/metrics": 200, metrics + "/readyz": 200, metrics + "/v1/check": 404, metrics + "/healthcheck": 404} {
		if got := r.status(t, url); got != want {
			t.Errorf("%s: %d, want %d", url, got, want)
		}
	}
}
