package server_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

const slotsFile = `id: api-limits
rules:
  - {id: reports, path: "/**", bands: [{label: slots, kind: concurrency, capacity: 1, hold: 10m}]}
---
id: shop
rules:
  - {id: carts, limitScope: COMPOSITE, compositeKeyFields: [descriptor], when: {descriptor: [{key: remote_address}]}, bands: [{label: slots, kind: concurrency, capacity: 1, hold: 10m}]}
`

// A proxy does not report the end of a request. Limits of concurrent requests do not limit its
// requests, and health, the log and explain name the rules; other callers are limited.
func TestProxySlots_Ignore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, slotsFile)
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+file, "server.grpc=127.0.0.1:0")
	for i := range 3 {
		if status := r.forwardAuth(t); status != http.StatusNoContent {
			t.Fatalf("request %d of the proxy: %d", i, status)
		}
	}
	envoy := pb.NewRateLimitServiceClient(dialGRPC(t, r.Addr("grpc")))
	for i := range 3 {
		answer, err := envoy.ShouldRateLimit(t.Context(), fromAddress("10.0.0.1"))
		if err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OK {
			t.Fatalf("call %d of Envoy: %v, %v", i, answer, err)
		}
	}
	if first, second := r.check(t, "ada"), r.check(t, "ada"); first["allowed"] != true || second["allowed"] != false {
		t.Errorf("checks: %v and %v, want the second rejected", first, second)
	}
	admin := "http://" + r.Addr("admin")
	testenv.Eventually(t, "health names both rules", func() bool {
		body := r.do(t, http.MethodGet, admin+"/v1/health", "").body
		return strings.Contains(body, `rule \"reports\" of rule set \"api-limits\"`) && strings.Contains(body, `rule \"carts\" of rule set \"shop\"`)
	})
	r.forwardAuth(t)
	line := "limit of concurrent requests is not enforced for requests of proxies"
	if n := strings.Count(log.String(), line); n != 2 || !strings.Contains(log.String(), "rule=reports") {
		t.Errorf("%d lines, want one for each rule:\n%s", n, log)
	}
	explained := r.do(t, http.MethodPost, admin+"/v1/rule-sets/api-limits/explain", `{"path":"/orders"}`).body
	if !strings.Contains(explained, `"notForProxies":true`) {
		t.Errorf("explain does not say it: %s", explained)
	}
}

// With ratelimit.proxy-slots hold a request of a proxy holds its slot after the answer.
func TestProxySlots_Hold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, slotsFile)
	r := start(t, "redis.enabled=false", "rules.file="+file, "server.grpc=127.0.0.1:0", "ratelimit.proxy-slots=hold")
	if first, second := r.forwardAuth(t), r.forwardAuth(t); first != http.StatusNoContent || second != http.StatusTooManyRequests {
		t.Errorf("%d and %d, want the second rejected", first, second)
	}
	envoy := pb.NewRateLimitServiceClient(dialGRPC(t, r.Addr("grpc")))
	for i, want := range []pb.RateLimitResponse_Code{pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT} {
		answer, err := envoy.ShouldRateLimit(t.Context(), fromAddress("10.0.0.1"))
		if err != nil || answer.GetOverallCode() != want {
			t.Errorf("call %d of Envoy: %v, %v, want %v", i, answer, err, want)
		}
	}
}

// forwardAuth returns the answer to a proxy.
func (r *running) forwardAuth(t testing.TB) int {
	t.Helper()
	return r.do(t, http.MethodGet, "/v1/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/slow", "X-Forwarded-For", "192.0.2.1").status
}
