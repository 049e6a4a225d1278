package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/doctor"
)

// insightTokens are an operator that may see identities, a reader that may not, and a
// tenant that may see those of its rule set.
func insightTokens() string {
	token := func(name, roles, ruleSets string) string {
		return fmt.Sprintf("{name: %s, sha256: %s, roles: [%s], rule-sets: [%s]}", name, hashOf(name), roles, ruleSets)
	}
	return "server.auth.tokens=[" + strings.Join([]string{
		token("ops", "check, write, identities", ""), token("reader", "read", ""), token("tenant", "read, identities", "tenant-b"),
	}, ", ") + "]"
}

// as sends a request with a token and decodes the answer.
func (r *running) as(t testing.TB, token, method, path, body string, to any, headers ...string) answer {
	t.Helper()
	a := r.do(t, method, path, body, append(headers, "Authorization", "Bearer "+token, "Content-Type", "application/json")...)
	if to != nil {
		if err := json.Unmarshal([]byte(a.body), to); err != nil || a.status != http.StatusOK {
			t.Fatalf("%s %s answers %d %s", method, path, a.status, a.body)
		}
	}
	return a
}

// insightOf returns an answer of the admin API.
func insightOf[T any](t testing.TB, r *running, token, path string) (to T) {
	t.Helper()
	r.as(t, token, http.MethodGet, r.adminURL()+path, "", &to)
	return to
}

// putRules creates a rule set of a rule by user and one by API key.
func (r *running) putRules(t testing.TB, id string) {
	t.Helper()
	body := fmt.Sprintf(`{"id":%q,"rules":[
		{"id":"per-user","limitScope":"USER_ID","path":"/orders","bands":[{"label":"hourly","capacity":5,"refill":"1h"}]},
		{"id":"per-key","limitScope":"API_KEY","path":"/keys","bands":[{"label":"hourly","capacity":1,"refill":"1h"}]}]}`, id)
	if a := r.as(t, "ops", http.MethodPut, r.adminURL()+"/v1/rule-sets/"+id, body, nil, "If-None-Match", "*"); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// sendTimes checks a request so often.
func (r *running) sendTimes(t testing.TB, times int, body string) {
	t.Helper()
	for range times {
		r.as(t, "ops", http.MethodPost, r.url+"/v1/check", body, new(map[string]any))
	}
}

func callerOf(all []admin.Caller, ruleSet, rule string) *admin.Caller {
	for i := range all {
		if all[i].RuleSet == ruleSet && all[i].Rule == rule {
			return &all[i]
		}
	}
	return nil
}

// Any server answers for all of them, to everyone as far as they may see.
func TestInsight_Fleet(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	set := []string{"redis.uri=" + redis.URI(), "server.admin-rate=1000000", "rules.source=redis", insightTokens()}
	one, second := start(t, set...), start(t, set...)
	one.putRules(t, "api-limits")
	one.putRules(t, "tenant-b")
	testenv.Eventually(t, "the other server has the rules", func() bool {
		return second.as(t, "ops", http.MethodPost, second.url+"/v1/check", `{"userId":"x","path":"/orders","ruleSet":"tenant-b","peek":true}`, nil).object(t)["rule"] == "per-user"
	})
	for _, r := range []*running{one, second} {
		r.sendTimes(t, 10, `{"userId":"alice-in-plain","path":"/orders"}`) // 5 pass
		r.sendTimes(t, 4, `{"apiKey":"sk-in-plain","path":"/keys"}`)       // 1 passes
		r.sendTimes(t, 7, `{"userId":"bob-in-plain","path":"/orders","ruleSet":"tenant-b"}`)
	}
	var callers admin.Callers
	var alice, key, bob *admin.Caller
	testenv.Eventually(t, "the callers of both servers are added up", func() bool {
		callers = insightOf[admin.Callers](t, one, "ops", "/v1/callers")
		alice, key, bob = callerOf(callers.Callers, "api-limits", "per-user"), callerOf(callers.Callers, "api-limits", "per-key"), callerOf(callers.Callers, "tenant-b", "per-user")
		return alice != nil && alice.Count == 15 && key != nil && key.Count == 7 && bob != nil && bob.Count == 9
	})
	if alice.Identity != "user alice-in-plain" || alice.PerSecond <= 0 || callers.Callers[0] != *alice {
		t.Errorf("%+v", callers)
	}
	if key.Identity != "" || bob.Identity != "user bob-in-plain" {
		t.Errorf("%+v", callers)
	}
	if a := one.as(t, "ops", http.MethodPost, one.adminURL()+"/v1/rule-sets/api-limits/buckets/reset", `{"rule":"per-user","key":"`+alice.Key+`"}`, nil); a.status != http.StatusNoContent {
		t.Errorf("the key of a caller does not reset its bucket: %d %s", a.status, a.body)
	}
	a := one.as(t, "reader", http.MethodGet, one.adminURL()+"/v1/callers", "", nil)
	if strings.Contains(a.body, "in-plain") || strings.Count(a.body, `"key"`) != 3 {
		t.Errorf("a reader sees %s", a.body)
	}
	for _, path := range []string{"/v1/callers", "/v1/callers?outcome=allowed", "/v1/live", "/v1/fleet"} {
		a := one.as(t, "tenant", http.MethodGet, one.adminURL()+path, "", new(map[string]any))
		if strings.Contains(a.body, "api-limits") || strings.Contains(a.body, "alice") || strings.Contains(a.body, redis.Addr()) {
			t.Errorf("%s shows a tenant %s", path, a.body)
		}
	}
	callers = insightOf[admin.Callers](t, one, "tenant", "/v1/callers?ruleSet=tenant-b&rule=per-user&outcome=allowed")
	if len(callers.Callers) != 1 || callers.Callers[0].Identity != "user bob-in-plain" || callers.Callers[0].Count != 5 {
		t.Errorf("a tenant sees of its own %+v", callers)
	}
	if a := one.as(t, "tenant", http.MethodGet, one.adminURL()+"/v1/live?ruleSet=api-limits", "", nil); a.status != http.StatusForbidden {
		t.Errorf("a tenant asks for another rule set: %d %s", a.status, a.body)
	}
	testNumbers(t, one)
	noIdentities(t, redis, "in-plain")
}

// testNumbers checks the live numbers of 42 requests.
func testNumbers(t *testing.T, one *running) {
	t.Helper()
	sum := func(series []*float64, step int) (all float64) {
		for _, v := range series {
			if v != nil {
				all += *v * float64(step)
			}
		}
		return all
	}
	for token, want := range map[string][2]float64{"ops": {5 + 1 + 5, 15 + 7 + 9}, "tenant": {5, 9}} {
		var live admin.Live
		testenv.Eventually(t, "the requests of both servers are in the series", func() bool {
			live = insightOf[admin.Live](t, one, token, "/v1/live")
			return sum(live.Series.Allowed, live.StepSeconds) == want[0] && sum(live.Series.Limited, live.StepSeconds) == want[1]
		})
		if live.Servers != 2 || len(live.Series.P99Ms) != len(live.Series.Allowed) || len(live.Series.Shadow) != 60 || live.Series.Allowed[0] != nil {
			t.Errorf("%s sees %+v", token, live)
		}
	}
	fleet := insightOf[admin.Fleet](t, one, "ops", "/v1/fleet")
	if len(fleet.Servers) != 2 || fleet.Servers[0].Self == fleet.Servers[1].Self || fleet.Problem != "" || len(fleet.Differing) != 0 {
		t.Errorf("the fleet is %+v", fleet)
	}
	for _, s := range fleet.Servers {
		if s.Version != "test" || s.Name == "" || s.Draining || s.Revisions["api-limits"] != 1 || len(s.Redis) != 1 || s.Redis[0].Open {
			t.Errorf("%+v", s)
		}
	}
}

// noIdentities looks for plain identities in all of Redis.
func noIdentities(t *testing.T, redis *testenv.Server, plain string) {
	t.Helper()
	keys, err := redis.Do(t.Context(), "KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	reports := 0
	for _, key := range keys.([]any) {
		kind, err := redis.Do(t.Context(), "TYPE", key)
		if err != nil {
			t.Fatal(err)
		}
		read, known := map[any][]any{"string": {"GET", key}, "hash": {"HGETALL", key}, "zset": {"ZRANGE", key, 0, -1}}[kind]
		if !known {
			t.Fatalf("%v is a %v", key, kind)
		}
		value, err := redis.Do(t.Context(), read...)
		if strings.Contains(fmt.Sprint(key), "gateways}:") && strings.Contains(fmt.Sprint(value), `"limited"`) {
			reports++
		}
		if err != nil || strings.Contains(fmt.Sprint(key, value), plain) {
			t.Errorf("%v has an identity in plain (%v): %q", key, err, value)
		}
	}
	if reports != 2 {
		t.Errorf("%d reports, want 2 of %v", reports, keys)
	}
}

// While Redis does not answer a server shows its own numbers, and says so.
func TestInsight_RedisFrozen(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	set := []string{shortTimeout, "redis.uri=" + redis.URI(), "server.admin-rate=1000000", "rules.file=" + rulesFile(t, 100), "reload.strategy=POLLING"}
	one, second := start(t, set...), start(t, set...)
	second.check(t, "bob")
	var fleet admin.Fleet
	testenv.Eventually(t, "both see each other", func() bool {
		fleet = insightOf[admin.Fleet](t, one, "", "/v1/fleet")
		return len(fleet.Servers) == 2
	})
	if err := redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = redis.Thaw() }()
	for range 5 {
		one.check(t, "ada")
	}
	testenv.Eventually(t, "it shows itself only, and the open breaker", func() bool {
		fleet = insightOf[admin.Fleet](t, one, "", "/v1/fleet")
		return len(fleet.Servers) == 1 && len(fleet.Servers[0].Redis) == 1 && fleet.Servers[0].Redis[0].Open
	})
	if node := fleet.Servers[0].Redis[0]; !strings.Contains(fleet.Problem, "Redis does not answer") || node.Since == nil || node.Error == "" || node.Node != redis.Addr() {
		t.Errorf("%+v", fleet)
	}
	var live admin.Live
	testenv.Eventually(t, "its own requests are counted", func() bool {
		live = insightOf[admin.Live](t, one, "", "/v1/live")
		return len(live.Rules) == 1 && live.Rules[0].Degraded == 0.5
	})
	if live.Servers != 1 || live.Problem == "" {
		t.Errorf("%+v", live)
	}
	callers := insightOf[admin.Callers](t, one, "", "/v1/callers?outcome=allowed")
	if len(callers.Callers) != 1 || callers.Callers[0].Identity != "user ada" || callers.Callers[0].Count != 5 || callers.Problem == "" {
		t.Errorf("%+v", callers)
	}
}

// Reports that are malformed, too large or of another type are ignored.
func TestInsight_InvalidReports(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	one, log := startLogged(t, "redis.uri="+redis.URI(), "rules.file="+rulesFile(t, 100), "reload.strategy=POLLING")
	for id, command := range map[string][]any{
		"0000000000000001": {"SET", "{", "EX", "600"},
		"0000000000000002": {"SET", strings.Repeat("x", 1<<20), "EX", "600"},
		"0000000000000003": {"LPUSH", "a"},
		"short":            {"SET", `{"v":1}`, "EX", "600"},
	} {
		if _, err := redis.Do(t.Context(), "HSET", "fluxgate:gateways", id, time.Now().Add(50*time.Minute).UnixMilli()); err != nil {
			t.Fatal(err)
		}
		command = append([]any{command[0], "fluxgate:{fluxgate:gateways}:" + id}, command[1:]...)
		if _, err := redis.Do(t.Context(), command...); err != nil {
			t.Fatal(err)
		}
	}
	fleet := insightOf[admin.Fleet](t, one, "", "/v1/fleet")
	if len(fleet.Servers) != 1 || !fleet.Servers[0].Self || fleet.Problem != "" {
		t.Errorf("%+v", fleet)
	}
	if lines := log.Lines("report of a server is invalid"); len(lines) != 1 || !strings.Contains(lines[0], "0000000000000001") {
		t.Errorf("logged %q", lines)
	}
}

// Without Redis the fleet is this server. Without insight there are no such operations.
func TestInsight_Settings(t *testing.T) {
	alone := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 100))
	fleet := insightOf[admin.Fleet](t, alone, "", "/v1/fleet")
	if len(fleet.Servers) != 1 || fleet.Problem != "" || len(fleet.Servers[0].Redis) != 0 {
		t.Errorf("%+v", fleet)
	}
	off := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 100), "telemetry.insight=false")
	if a := off.do(t, http.MethodGet, off.adminURL()+"/v1/fleet", ""); a.status != http.StatusNotFound {
		t.Errorf("%d %s", a.status, a.body)
	}
	off.check(t, "ada")
}

// childSettings has the settings of a server that runs instead of the tests: it can be
// killed.
const childSettings = "FLUXGATE_TEST_SERVER"

func runChild() {
	ctx := context.Background()
	c, err := config.Load(config.Sources{Set: strings.Split(os.Getenv(childSettings), "\n")})
	if err == nil {
		var app *server.App
		if app, err = server.New(ctx, c, server.Options{}); err == nil {
			err = app.Run(ctx)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A server that is killed is gone from the servers of the others within 10 seconds, and is named as
// lost, also by doctor. One that shuts down is not lost.
func TestInsight_KilledServer(t *testing.T) {
	testenv.SkipShort(t)
	redis := testenv.StartStandalone(t, testenv.Config{})
	set := []string{"redis.uri=" + redis.URI(), "server.admin-rate=1000000", "rules.file=" + rulesFile(t, 100), "reload.strategy=POLLING"}
	one := start(t, set...)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childSettings+"="+strings.Join(append(set, "server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "mongo.enabled=false"), "\n"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	servers := func() int {
		fleet := insightOf[admin.Fleet](t, one, "", "/v1/fleet")
		return len(fleet.Servers)
	}
	testenv.Eventually(t, "the other server is seen", func() bool { return servers() == 2 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	_ = cmd.Wait() // killed
	testenv.Eventually(t, "the killed server is gone", func() bool { return servers() == 1 })
	if took := time.Since(killed); took > 10*time.Second {
		t.Errorf("it was gone after %v", took)
	}
	stopped := start(t, set...)
	testenv.Eventually(t, "the third server is seen", func() bool { return servers() == 2 })
	if err := stopped.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the third server has left", func() bool { return servers() == 1 })
	lost := insightOf[admin.Fleet](t, one, "", "/v1/fleet").Lost
	if len(lost) != 1 || lost[0].Name == "" || lost[0].LostAt.Before(killed.Add(-2*time.Second)) || lost[0].LostAt.After(time.Now()) ||
		lost[0].ShownUntil.Sub(lost[0].LostAt) != 15*time.Minute {
		t.Fatalf("lost: %+v", lost)
	}
	c, err := config.Load(config.Sources{Set: append(set, "redis.expected-servers=2")})
	if err != nil {
		t.Fatal(err)
	}
	says := ""
	for _, f := range doctor.Diagnose(t.Context(), c) {
		says += string(f.Severity) + " " + f.Part + ": " + f.Says + "\n"
	}
	for _, want := range []string{
		"watch servers: redis.expected-servers is 2, but only 1 reports to Redis\n",
		"watch servers: " + lost[0].Name, "is lost since " + lost[0].LostAt.Format("2006-01-02T15:04"),
	} {
		if !strings.Contains(says, want) {
			t.Errorf("doctor does not say %q:\n%s", want, says)
		}
	}
}

// The fleet shows why a server is degraded, here that Redis is full.
func TestInsight_Health(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	one := start(t, "redis.uri="+redis.URI(), "server.admin-rate=1000000", "rules.file="+rulesFile(t, 100), "reload.strategy=POLLING")
	self := func() *admin.Server { return &insightOf[admin.Fleet](t, one, "", "/v1/fleet").Servers[0] }
	testenv.Eventually(t, "the server is up", func() bool { return self().Status == "up" && self().Reason == "" })
	if _, err := redis.Do(t.Context(), "CONFIG", "SET", "maxmemory", "1"); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the server is degraded, with the reason", func() bool {
		one.check(t, "ada")
		s := self()
		return s.Status == "degraded" && strings.Contains(s.Reason, "OOM command not allowed")
	})
}
