package server_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/doctor"
)

// A server works with the Redis user that docs/redis.md shows.
func TestServer_ACL(t *testing.T) {
	page, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```acl daemon\nuser fluxgate on >change-me ")
	line, _, _ := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("docs/redis.md shows no ACL for the server")
	}
	settings := func(rules string) []string {
		redis := testenv.StartStandalone(t, testenv.Config{Users: []testenv.User{{Name: "fluxgate", Password: "change-me", Rules: rules}}})
		return []string{"redis.uri=" + redis.URI(), "redis.timeout=5s", "rules.file=" + rulesFile(t, 100), "reload.strategy=AUTO"}
	}
	allowed := func(rules string) *running { return start(t, settings(rules)...) }
	settles := func(r *running) int {
		receipt, _ := r.do(t, http.MethodPost, "/v1/check", `{"userId":"u","cost":9}`).object(t)["receipt"].(string)
		return r.do(t, http.MethodPost, "/v1/settle", `{"receipt":"`+receipt+`","actual":1}`).status
	}
	r := allowed(line)
	if d := r.check(t, "ada"); d["allowed"] != true || d["degraded"] != nil {
		t.Errorf("checking: %v", d)
	}
	if got := settles(r); got != http.StatusOK {
		t.Errorf("settling: %d", got)
	}
	testenv.Eventually(t, "it listens for announcements", func() bool {
		return strings.Contains(r.do(t, http.MethodGet, "/metrics", "").body, "fluxgate_rules_subscriptions_total 1")
	})
	if h := r.Health(t.Context()); h.Status != "up" {
		t.Errorf("health %+v", h)
	}
	// Without the right to the channel changes of rules are late, which health and doctor say.
	set := settings(strings.Replace(line, " &fluxgate:rule-reload ", " ", 1))
	silent := start(t, set...)
	named := func(text string) bool {
		return strings.Contains(text, "fluxgate:rule-reload") && strings.Contains(text, "NOPERM") && strings.Contains(text, "polling")
	}
	testenv.Eventually(t, "health names the channel", func() bool { return named(strings.Join(silent.Health(t.Context()).Warnings, "\n")) })
	c, err := config.Load(config.Sources{Set: append(set, "mongo.enabled=false")})
	if err != nil {
		t.Fatal(err)
	}
	if found := doctor.Diagnose(t.Context(), c); !slices.ContainsFunc(found, func(f doctor.Finding) bool {
		return f.Severity == doctor.Watch && strings.Contains(f.Remedy, "redis#acl") && named(f.Says)
	}) {
		t.Errorf("doctor does not name the channel: %+v", found)
	}
	if got := settles(allowed(strings.Replace(line, " +set ", " ", 1))); got != http.StatusServiceUnavailable {
		t.Errorf("settling without the right to: %d", got)
	}
}
