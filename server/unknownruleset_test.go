package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// A rule set that a request names and that does not exist is refused on every way to the
// server but Envoy's, and never allowed by missing-rule-behavior.
func TestUnknownRuleSet(t *testing.T) {
	r, log := startLogged(t, "server.grpc=127.0.0.1:0", "redis.enabled=false", "rules.file="+rulesFile(t, 1_000))
	for _, path := range []string{"/v1/check", "/api/ratelimit/check"} {
		field := map[string]string{"/v1/check": "ruleSet", "/api/ratelimit/check": "ruleSetId"}[path]
		answer := r.do(t, http.MethodPost, path, `{"`+field+`":"api-limit"}`)
		problem := answer.object(t)
		if answer.status != http.StatusNotFound || problem["reason"] != "no-rule-set" || problem["detail"] != `ruleSet: there is no rule set "api-limit": did you mean api-limits?` {
			t.Errorf("%s: status %d, %v", path, answer.status, problem)
		}
	}
	batch := r.do(t, http.MethodPost, "/v1/check:batch", `{"requests":[{"ruleSet":"api-limit"},{"userId":"u"}]}`).object(t)["decisions"].([]any)
	if first, second := batch[0].(map[string]any), batch[1].(map[string]any); first["status"] != 404.0 || second["allowed"] != true {
		t.Errorf("batch: %v", batch)
	}
	for query, want := range map[string]int{"": http.StatusNoContent, "?ruleSet=api-limits": http.StatusNoContent, "?ruleSet=api-limit": http.StatusForbidden, "?ruleSet=api-limit&deny=401": http.StatusUnauthorized, "?ruleSet=a+b": http.StatusForbidden} {
		answer := r.do(t, http.MethodGet, "/v1/forward-auth"+query, "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/api/x", "X-Forwarded-For", "192.0.2.9")
		if answer.status != want {
			t.Errorf("forward-auth%s: status %d, want %d: %s", query, answer.status, want, answer.body)
		}
		if refused := answer.header.Get("X-Fluxgate-Status"); want != http.StatusNoContent && refused != "403" {
			t.Errorf("forward-auth%s: X-Fluxgate-Status is %q, as if there were no decision", query, refused)
		}
	}
	call := fromAddress("10.0.0.1") // of the domain shop
	if answer, err := pb.NewRateLimitServiceClient(dialGRPC(t, r.Addr("grpc"))).ShouldRateLimit(t.Context(), call); err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OK {
		t.Errorf("an unknown domain of Envoy: %v, %v", answer.GetOverallCode(), err)
	}
	scrape := r.do(t, http.MethodGet, "/metrics", "").body
	for _, want := range []string{
		`fluxgate_decisions_total{allowed="false",outcome="no-rule-set",rule_set="unknown",source="none"} 6`,
		`fluxgate_decisions_total{allowed="true",outcome="no-rule-set",rule_set="unknown",source="none"} 1`,
	} {
		if !strings.Contains(scrape, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if lines := log.Lines("requests that name it are rejected"); len(lines) != 1 {
		t.Errorf("%d lines say what happens to requests: %q", len(lines), lines)
	}
	if lines := log.Lines("request failed"); len(lines) > 0 {
		t.Errorf("a wrong name is reported as a failure: %q", lines)
	}
}

// An unknown domain of Envoy is in the log, with what happens to its calls.
func TestUnknownRuleSet_EnvoyLog(t *testing.T) {
	r, log := startLogged(t, "server.grpc=127.0.0.1:0", "redis.enabled=false", "rules.file="+rulesFile(t, 1_000))
	if got := codeOf(t.Context(), dialGRPC(t, r.Addr("grpc"))); got != "OK" {
		t.Errorf("the call is %s", got)
	}
	for _, want := range []string{"rule set not found in the source\" ruleSet=shop", "requests are allowed (missing-rule-behavior=ALLOW)"} {
		if lines := log.Lines(want); len(lines) != 1 {
			t.Errorf("%d lines with %s", len(lines), want)
		}
	}
}

// A rule set is refused when it is deleted, decided when it is back, and while its source
// cannot be read missing-rule-behavior decides: it is not known whether it exists. The default
// rule set is never refused this way, also by its name.
func TestUnknownRuleSet_States(t *testing.T) {
	dir := t.TempDir()
	writeRules(t, filepath.Join(dir, "default.yaml"), 1_000)
	other := filepath.Join(dir, "other.yaml")
	r := start(t, "redis.enabled=false", "rules.file="+dir)
	status := func(id string) int { return r.do(t, http.MethodPost, "/v1/check", `{"ruleSet":"`+id+`"}`).status }
	becomes := func(id string, want int) {
		t.Helper()
		testenv.Eventually(t, "the rules are read again", func() bool { return status(id) == want })
	}
	if got := status("other"); got != http.StatusNotFound {
		t.Errorf("before it exists: status %d", got)
	}
	write(t, other, "id: other\nrules: [{id: r, bands: [{capacity: 9, refill: 1h}]}]\n")
	becomes("other", http.StatusOK)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	becomes("other", http.StatusNotFound)
	write(t, filepath.Join(dir, "broken.yaml"), "id: [\n")
	becomes("never-read", http.StatusOK)
	if err := os.Remove(filepath.Join(dir, "broken.yaml")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "default.yaml"), "id: renamed\nrules: [{id: r, bands: [{capacity: 9, refill: 1h}]}]\n")
	testenv.Eventually(t, "the rules are read again", func() bool {
		return r.do(t, http.MethodPost, "/v1/check", `{"ruleSet":"api-limits"}`).object(t)["reason"] == "no-rule-set"
	})
	if got := status("api-limits"); got != http.StatusOK {
		t.Errorf("the default rule set by its name: status %d", got)
	}
}

// Requests that invent names keep no existing rule set from limiting: while it is not loaded,
// its requests are refused.
func TestUnknownRuleSet_Flood(t *testing.T) {
	const sets = 60
	dir := t.TempDir()
	writeRules(t, filepath.Join(dir, "default.yaml"), 1_000)
	var rules strings.Builder
	for i := range sets {
		fmt.Fprintf(&rules, "---\nid: set-%d\nrules: [{id: r, bands: [{capacity: 1, refill: 1h}]}]\n", i)
	}
	write(t, filepath.Join(dir, "sets.yaml"), rules.String())
	r := start(t, "redis.enabled=false", "rules.file="+dir, "rules.max-rule-sets=70")
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for caller := range 4 {
		flood.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var batch strings.Builder
				for i := range 100 {
					fmt.Fprintf(&batch, `,{"ruleSet":"invented-%d-%d-%d"}`, caller, n, i)
				}
				a := r.do(t, http.MethodPost, "/v1/check:batch", `{"requests":[`+batch.String()[1:]+`]}`)
				if strings.Contains(a.body, `"allowed":true`) {
					t.Errorf("an invented name is allowed: %.200s", a.body)
					return
				}
			}
		})
	}
	for i := range sets {
		allowed := 0
		for range 3 {
			a := r.do(t, http.MethodPost, "/v1/check", fmt.Sprintf(`{"ruleSet":"set-%d"}`, i))
			if a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			if strings.Contains(a.body, `"allowed":true`) {
				allowed++
			}
		}
		if allowed > 1 {
			t.Errorf("rule set %d allowed %d of 1", i, allowed)
		}
	}
	cancel()
	flood.Wait()
}
