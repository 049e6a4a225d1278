package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	goredis "github.com/redis/go-redis/v9"
)

// However many callers ask for the health, Redis is queried once a second at most.
func TestHealth_OnceASecond(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	r := start(t, "redis.uri="+redis.URI(), "rules.file="+rulesFile(t, 1), "reload.strategy=POLLING")
	client := goredis.NewClient(&goredis.Options{Addr: redis.Addr()})
	defer client.Close()
	if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				if a := r.do(t, http.MethodGet, "/v1/health", ""); a.status != http.StatusOK || a.object(t)["status"] != "up" {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	all.Wait()
	r.do(t, http.MethodGet, "/metrics", "")
	most := 1 + int(time.Since(begun)/time.Second)
	stats, err := client.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var queries int
	if _, err := fmt.Sscanf(stats["Commandstats"]["cmdstat_info"], "calls=%d,", &queries); err != nil || queries < 1 || queries > most {
		t.Errorf("200 requests in %v queried Redis %d times, want at most %d (%v)", time.Since(begun), queries, most, err)
	}
}

// While Redis is frozen, health is degraded within a second and says which server,
// since when and why. It is up within two seconds of the thaw. The log has one line for
// the beginning and one for the end.
func TestHealth_RedisFrozen(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	r, log := startLogged(t, "redis.uri="+redis.URI(), "redis.timeout=200ms", "rules.file="+rulesFile(t, 1), "reload.strategy=POLLING")
	stalls := testenv.WatchStalls(t)
	r.check(t, "ada")
	status := func() any { return r.do(t, http.MethodGet, "/v1/health", "").object(t)["status"] }
	frozen := time.Now()
	if err := redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "health is degraded", func() bool {
		var callers sync.WaitGroup // one after the other they alone would take most of the second
		for range 3 {
			callers.Go(func() { r.check(t, "ada") })
		}
		callers.Wait()
		return status() == "degraded"
	})
	if noticed := stalls.Since(frozen); noticed > time.Second {
		t.Errorf("health is degraded after %v", noticed)
	}
	var node map[string]any
	testenv.Eventually(t, "health names the server", func() bool {
		r.check(t, "ada")
		store := r.do(t, http.MethodGet, "/v1/health", "").object(t)["store"].(map[string]any)
		node = store["nodes"].([]any)[0].(map[string]any)
		return node["breakerOpen"] == true
	})
	since, err := time.Parse(time.RFC3339, fmt.Sprint(node["since"]))
	if err != nil || since.Before(frozen.Truncate(time.Second)) || node["addr"] != redis.Addr() || node["error"] == nil {
		t.Errorf("%v (%v)", node, err)
	}

	thawed := time.Now()
	if err := redis.Thaw(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "health is up", func() bool { return status() == "up" })
	if normal := stalls.Since(thawed); normal > 2*time.Second {
		t.Errorf("health is up %v after the thaw", normal)
	}
	testenv.Eventually(t, "the log says so", func() bool { return len(log.Lines("Redis answers again")) > 0 })
	for _, line := range []string{"Redis does not answer", "Redis answers again"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%d lines say %q", n, line)
		}
	}
}

// Health degrades without a request, when Redis is full for example. The log says why.
func TestHealth_LoggedWithoutRequests(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	r, log := startLogged(t, shortTimeout, "redis.uri="+redis.URI(), "rules.file="+rulesFile(t, 1), "reload.strategy=POLLING")
	status := func() any { return r.do(t, http.MethodGet, "/v1/health", "").object(t)["status"] }
	testenv.Eventually(t, "health is up", func() bool { return status() == "up" })
	if err := redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "health is degraded without a request for it", func() bool { return len(log.Lines("health is degraded")) > 0 })
	if lines := log.Lines("health is degraded"); len(lines) != 1 || !strings.Contains(lines[0], "WARN") || !strings.Contains(lines[0], redis.Addr()) {
		t.Errorf("the log has %q", lines)
	}
	if err := redis.Thaw(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "health is up without a request for it", func() bool { return len(log.Lines("health is up")) > 0 })
	if lines := log.Lines("health is up"); len(lines) != 1 {
		t.Errorf("the log has %q", lines)
	}
}

// A missing rule set is not one in use.
func TestHealth_MissingRuleSet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, "ruleSets:\n  - {id: other, rules: []}\n")
	r := start(t, "redis.enabled=false", "rules.file="+file)
	if h := r.Health(t.Context()); h.Status != "down" || h.Rules.Count != 0 || len(h.Rules.Sets) != 1 {
		t.Errorf("%+v", h)
	}
}

// Health stays short however many rule sets are in use. The default and those with an
// error are listed first.
func TestHealth_ManyRuleSets(t *testing.T) {
	const sets = 300
	text := "ruleSets:\n  - {id: api-limits, rules: []}\n"
	var requests []string
	for i := range sets {
		text += fmt.Sprintf("  - {id: a-%03d, rules: []}\n", i)
		requests = append(requests, fmt.Sprintf(`{"ruleSet":"a-%03d"}`, i))
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, text)
	r := start(t, "redis.enabled=false", "rules.file="+file)
	for part := range slices.Chunk(requests, 50) {
		if a := r.do(t, http.MethodPost, "/v1/check:batch", `{"requests":[`+strings.Join(part, ",")+`]}`); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	h := r.Health(t.Context()).Rules
	if h.Count != sets+1 || len(h.Sets) != 20 || h.Sets[0].ID != "api-limits" || h.Failing != 0 {
		t.Errorf("%d rule sets, %d listed, the first %+v, %d failing", h.Count, len(h.Sets), h.Sets[0], h.Failing)
	}
	if a := r.do(t, http.MethodGet, "/v1/health", ""); len(a.body) > 16<<10 {
		t.Errorf("health has %d bytes", len(a.body))
	}
}
