package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// A server with files of envoyproxy/ratelimit is ready without the default rule set,
// decides by them, and reads changes. While a file is broken the last valid rules are in
// effect, and health is degraded with its line.
func TestServer_EnvoyFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "edge.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: day, requests_per_unit: 2}\n"
	write(good)
	r, log := startLogged(t, "redis.enabled=false", "mongo.enabled=false", "rules.envoy-files="+folder)
	if strings.Contains(log.String(), "api-limits") {
		t.Errorf("the log speaks of a rule set that nobody needs:\n%s", log)
	}
	if a := r.do(t, http.MethodGet, "/readyz", ""); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.do(t, http.MethodGet, "/v1/health", ""); a.object(t)["status"] != "up" || !strings.Contains(a.body, `"kind": "envoy-files"`) || !strings.Contains(a.body, `"id": "edge"`) || strings.Contains(a.body, "api-limits") {
		t.Errorf("%d %s", a.status, a.body)
	}
	check := func(user string) map[string]any {
		t.Helper()
		a := r.do(t, http.MethodPost, "/v1/check", `{"ruleSet":"edge","descriptor":[{"key":"user","value":"`+user+`"}]}`)
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return a.object(t)
	}
	for i, want := range []bool{true, true, false} {
		if d := check("ada"); d["allowed"] != want {
			t.Errorf("request %d: %v", i, d)
		}
	}
	if d := check("bob"); d["allowed"] != true {
		t.Errorf("%v", d)
	}

	write("domain: edge\ndescriptors:\n  - value: x\n")
	testenv.Eventually(t, "health names the line", func() bool {
		a := r.do(t, http.MethodGet, "/v1/health", "")
		return a.object(t)["status"] == "degraded" && strings.Contains(a.body, "edge.yaml:3:5: descriptors[0].key: is required")
	})
	if d := check("ada"); d["allowed"] != false {
		t.Errorf("the last valid rules are not in effect: %v", d)
	}
	write(strings.Replace(good, "2}", "5}", 1))
	testenv.Eventually(t, "the new limit is in effect", func() bool { return check("eve")["limit"] == 5.0 })
}

// Files that are broken at the start are not ready.
func TestServer_EnvoyFilesBroken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edge.yaml")
	if err := os.WriteFile(file, []byte("domain: edge\nlimits: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "redis.enabled=false", "mongo.enabled=false", "rules.envoy-files="+file)
	if a := r.do(t, http.MethodGet, "/v1/health", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "edge.yaml:2:9: limits: unknown key") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
