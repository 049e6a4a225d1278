package server_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
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
	allowed := func(rules string) *running {
		redis := testenv.StartStandalone(t, testenv.Config{Users: []testenv.User{{Name: "fluxgate", Password: "change-me", Rules: rules}}})
		return start(t, "redis.uri="+redis.URI(), "redis.timeout=5s", "rules.file="+rulesFile(t, 100), "reload.strategy=AUTO")
	}
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
	if got := settles(allowed(strings.Replace(line, " +set ", " ", 1))); got != http.StatusServiceUnavailable {
		t.Errorf("settling without the right to: %d", got)
	}
}
