package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// A rule that is edited is in effect while the server runs.
func TestServer_EditedRule(t *testing.T) {
	file := rulesFile(t, 2)
	r := start(t, "redis.enabled=false", "rules.file="+file)
	for i, want := range []bool{true, true, false} {
		if d := r.check(t, "ada"); d["allowed"] != want {
			t.Fatalf("request %d: %v", i, d)
		}
	}
	writeRules(t, file, 100)
	testenv.Eventually(t, "the edit is in effect", func() bool { return r.check(t, "ada")["limit"] == 100.0 })
	write(t, file, "id: api-limits\nrules: [{id: bad, bands: []}]")
	testenv.Eventually(t, "health tells of a bad edit", func() bool {
		return r.do(t, http.MethodGet, "/v1/health", "").object(t)["status"] == "degraded"
	})
	if d := r.check(t, "ada"); d["limit"] != 100.0 {
		t.Errorf("the last good rules do not decide: %v", d)
	}
	if a := r.do(t, http.MethodGet, "/readyz", ""); a.status != http.StatusOK {
		t.Errorf("it is not ready: %s", a.body)
	}
	if err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "rules[0].bands") {
		t.Errorf("reloading bad rules: %v", err)
	}
}

// Every route answers.
func TestServer_Routes(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 5))
	admin := "http://" + r.Addr("admin")
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/healthz", "", 200, "alive"},
		{"GET", "/readyz", "", 200, "ready"},
		{"GET", "/v1/health", "", 200, `"status": "up"`},
		{"GET", "/metrics", "", 200, "fluxgate_build_info"},
		{"GET", admin + "/metrics", "", 200, "fluxgate_rules_revision"},
		{"GET", admin + "/v1/health", "", 200, `"kind": "file"`},
		{"POST", admin + "/v1/check", "{}", 404, "No such endpoint"},
		{"POST", "/v1/check", `{"userId":"u"}`, 200, `"allowed":true`},
		{"POST", "/v1/check", `{"path":"/denied"}`, 200, `"reason":"denied"`},
		{"POST", "/v1/check:batch", `{"requests":[{"userId":"b"},{"path":"/denied"}]}`, 200, `{"decisions":[{"allowed":true`},
		{"POST", "/v1/check:batch", `{"requests":[]}`, 400, "1 to 100"},
		{"POST", "/api/ratelimit/check", `{"ruleSetId":"api-limits","userId":"c","endpoint":"/x","method":"GET"}`, 200, `{"allowed":true,"remaining":4,"retryAfterMs":0}`},
		{"POST", "/v1/settle", `{"receipt":"forged","actual":0}`, 403, "another secret"},
		{"GET", "/v1/check", "", 405, "Use POST"},
		{"GET", "/nowhere", "", 404, "No such endpoint"},
		{"POST", "/v1/check", `{"user":"typo"}`, 400, `unknown field \"user\"`},
	} {
		a := r.do(t, c.method, c.path, c.body)
		if a.status != c.status || !strings.Contains(a.body, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	forward := r.do(t, http.MethodGet, "/v1/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/api/x", "X-Forwarded-Host", "h", "X-Forwarded-For", "192.0.2.9")
	if forward.status/100 != 2 || forward.header.Get("X-RateLimit-Limit") != "5" {
		t.Errorf("forward-auth: %d %v", forward.status, forward.header)
	}
}

// A receipt settles once.
func TestServer_ReceiptOnce(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 100))
	a := r.do(t, http.MethodPost, "/v1/check", `{"userId":"u","cost":60}`)
	receipt, _ := a.object(t)["receipt"].(string)
	settle := func() answer {
		return r.do(t, http.MethodPost, "/v1/settle", `{"receipt":"`+receipt+`","actual":10}`)
	}
	if a := settle(); a.status != http.StatusOK || a.object(t)["returned"] != 50.0 {
		t.Errorf("settling: %d %s", a.status, a.body)
	}
	if a := settle(); a.status != http.StatusConflict {
		t.Errorf("settling again: %d %s", a.status, a.body)
	}
	if d := r.check(t, "u"); d["remaining"] != 89.0 {
		t.Errorf("after 10 and 1 of 100: %v", d["remaining"])
	}
}

// Tokens have roles.
func TestServer_TokenRoles(t *testing.T) {
	folder := t.TempDir()
	file := folder + "/tokens.yaml"
	tokens := func(names ...string) {
		text := "tokens:\n"
		for _, name := range names {
			text += "  - {name: " + name + ", sha256: " + hashOf("secret of "+name) + ", roles: [" + name + "]}\n"
		}
		write(t, file, text)
	}
	tokens("check", "read")
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000), "server.auth.tokens-file="+file)
	status := func(method, path, token string) int {
		return r.do(t, method, path, `{"userId":"u"}`, "Authorization", "Bearer "+token).status
	}
	for _, c := range []struct {
		method, path, token string
		want                int
	}{
		{"POST", "/v1/check", "secret of check", 200},
		{"POST", "/v1/check", "secret of read", 403},
		{"POST", "/v1/check", "wrong", 401},
		{"POST", "/v1/check", "", 401},
		{"GET", "/metrics", "secret of read", 200},
		{"GET", "/metrics", "secret of check", 403},
		{"GET", "/v1/health", "", 401},
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/openapi.json", "", 200},    // no data
		{"GET", "/v1/forward-auth", "", 400}, // a proxy on loopback, which says nothing
	} {
		if got := status(c.method, c.path, c.token); got != c.want {
			t.Errorf("%s %s with %q: %d, want %d", c.method, c.path, c.token, got, c.want)
		}
	}
	tokens("read")
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := status("POST", "/v1/check", "secret of check"); got != http.StatusUnauthorized {
		t.Errorf("a token that was taken away: %d", got)
	}
	if a := r.do(t, http.MethodPost, "/v1/check", `{}`); a.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", a.status)
	}
	// An empty list denies all callers.
	write(t, file, "tokens: []")
	_ = r.Reload(t.Context())
	if got := status("POST", "/v1/check", "anything"); got != http.StatusUnauthorized {
		t.Errorf("with an empty file of tokens: %d", got)
	}
	write(t, file, "tokens: [{name: nothing, sha256: "+hashOf("")+", roles: [check]}]")
	_ = r.Reload(t.Context())
	if a := r.do(t, http.MethodPost, "/v1/check", `{}`); a.status != http.StatusUnauthorized {
		t.Errorf("with the hash of nothing: %d", a.status)
	}
	tokens("read")
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, file, "tokens: {")
	if err := r.Reload(t.Context()); err == nil || strings.Contains(err.Error(), hashOf("secret of read")) {
		t.Errorf("a bad file: %v", err)
	}
	if got := status("GET", "/metrics", "secret of read"); got != http.StatusOK {
		t.Errorf("after a bad file the good tokens are gone: %d", got)
	}
}

// A server starts without Redis. Until Redis answers, onFailure of the rules
// decides, here with the local fallback.
func TestServer_StartWithoutRedis(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, redis.Addr())
	proxy.Refuse()
	r := start(t, "redis.uri=redis://"+proxy.Addr(), "rules.file="+rulesFile(t, 3), "reload.strategy=POLLING")
	for i, want := range []bool{true, true, true, false} {
		if d := r.check(t, "ada"); d["allowed"] != want || d["degraded"] != true {
			t.Fatalf("request %d: %v", i, d)
		}
	}
	h := r.Health(t.Context())
	if h.Status != "degraded" || h.Store.Status != "down" || h.Store.Error == "" {
		t.Errorf("health %+v", h)
	}
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "Redis decides", func() bool { return r.check(t, "bob")["degraded"] == nil })
	testenv.Eventually(t, "health is up", func() bool { return r.Health(t.Context()).Status == "up" })
}

// A server with an invalid configuration does not start.
func TestServer_InvalidConfiguration(t *testing.T) {
	for name, set := range map[string][]string{
		"no rules":           {"redis.enabled=false", "mongo.enabled=false"},
		"no such address":    {"redis.enabled=false", "mongo.enabled=false", "rules.file=" + rulesFile(t, 1), "server.http=256.0.0.1:1"},
		"admin for everyone": {"redis.enabled=false", "mongo.enabled=false", "rules.file=" + rulesFile(t, 1), "server.admin=0.0.0.0:0"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Load(config.Sources{Set: set})
			if err != nil {
				return
			}
			app, err := server.New(t.Context(), c, server.Options{})
			if err == nil {
				_ = app.Shutdown(t.Context())
				t.Error("it started")
			}
		})
	}
}

// A server without rules is not ready.
func TestServer_NotReadyWithoutRules(t *testing.T) {
	file := rulesFile(t, 3)
	r := start(t, "redis.enabled=false", "rules.file="+file, "ratelimit.default-rule-set-id=others")
	if a := r.do(t, http.MethodGet, "/readyz", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "no rules") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.do(t, http.MethodGet, "/v1/health", ""); a.status != http.StatusServiceUnavailable || a.object(t)["status"] != "down" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if d := r.check(t, "u"); d["allowed"] != true || d["reason"] != "no-rule-set" {
		t.Errorf("%v", d)
	}
}

// Reloading can be switched off.
func TestServer_ReloadOff(t *testing.T) {
	file := rulesFile(t, 2)
	r := start(t, "redis.enabled=false", "rules.file="+file, "reload.enabled=false")
	r.check(t, "ada")
	writeRules(t, file, 100)
	time.Sleep(500 * time.Millisecond) // several polls and notices, if there were any
	if d := r.check(t, "ada"); d["limit"] != 2.0 {
		t.Errorf("rules that are read once have changed: %v", d)
	}
}

// Buckets in memory are reset on reload.
func TestServer_ResetOnReload(t *testing.T) {
	file := rulesFile(t, 2)
	r := start(t, "redis.enabled=false", "rules.file="+file, "reload.reset-buckets-on-reload=true")
	for range 3 {
		r.check(t, "ada")
	}
	writeRules(t, file, 3)
	testenv.Eventually(t, "the buckets are full", func() bool {
		d := r.check(t, "ada")
		return d["limit"] == 3.0 && d["allowed"] == true
	})
}

// Shutdown ends run well.
func TestShutdown_EndsRun(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 2))
	for range 2 {
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Run ended with %v", err)
	}
	r.ended <- nil
}

// The admin listener is on loopback by default.
func TestAdmin_Loopback(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 2))
	for host, want := range map[string]int{"": 200, "localhost": 200, "127.0.0.1:80": 200, "[::1]:80": 200, "evil.example": 403, "evil.example:9090": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addr("admin")+"/v1/health", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("asked for %q: %d, want %d", host, res.StatusCode, want)
		}
	}
}
