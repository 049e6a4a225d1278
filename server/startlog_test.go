package server_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/telemetry"
	goredis "github.com/redis/go-redis/v9"
)

// One line says what runs: version, configuration, Redis, rules, reloading and
// listeners, and no secret.
func TestServer_StartLog(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{Password: "hush-hush"})
	folder := t.TempDir()
	file := filepath.Join(folder, "fluxgate.yaml")
	write(t, file, "fluxgate:\n  server:\n    auth:\n      tokens: [{name: ada, sha256: "+hashOf("ada")+", roles: [check]}]\n")
	log := new(testenv.LogBuffer)
	logger, err := telemetry.NewLogger(log, "text", "info")
	if err != nil {
		t.Fatal(err)
	}
	rules := rulesFile(t, 1)
	r := startWith(t, config.Sources{File: file}, server.Options{Version: "v1.2.3", Logger: logger}, "redis.uri="+redis.URI(), "rules.file="+rules)
	testenv.Eventually(t, "the start is logged", func() bool { return len(log.Lines("msg=started")) > 0 })
	line := log.Lines("msg=started")[0]
	for _, want := range []string{
		"version=v1.2.3", "config=" + file, "store=redis", "leases=auto", "redisMode=standalone", "redisNodes=" + redis.Addr(), "rules=file", "rulesAt=" + rules,
		"reload=AUTO", "pollingInterval=100ms", "http=" + r.Addr("http"), "admin=" + r.Addr("admin"), "tls=false",
		"metrics=" + r.Addr("http"),
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
	if lines := log.Lines("hush-hush"); len(lines) > 0 {
		t.Errorf("the log shows a secret: %s", lines)
	}

	plain, log := startLogged(t, "redis.enabled=false", "rules.file="+rules, "server.admin=", "telemetry.metrics=false")
	testenv.Eventually(t, "the start is logged", func() bool { return len(log.Lines("msg=started")) > 0 })
	line = log.Lines("msg=started")[0]
	for _, want := range []string{"config=none", "store=memory", "reload=POLLING", "http=" + plain.Addr("http"), "admin=off", "metrics=off"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
}

// Whether Redis is away since the start or goes later, its return is logged
// once, and so is a script that had to be loaded again.
func TestLog_RedisReturns(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, redis.Addr())
	proxy.Refuse()
	r, log := startLogged(t, "redis.uri=redis://"+proxy.Addr(), "redis.timeout=2s", "rules.file="+rulesFile(t, 1_000_000), "reload.strategy=POLLING")
	if h := r.Health(t.Context()); !strings.Contains(h.Store.Error, "refused") && !strings.Contains(h.Store.Error, "reset") && !strings.Contains(h.Store.Error, "EOF") {
		t.Errorf("health does not say why Redis is away: %s", h.Store.Error)
	} else if since := time.Since(h.Store.Since); since <= 0 || since > time.Minute {
		t.Errorf("health says that Redis is away for %v", since)
	}
	for range 3 {
		r.crowd(t)
	}
	accept := func(logged string) {
		t.Helper()
		if err := proxy.Accept(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "Redis decides", func() bool { return r.check(t, "ada")["degraded"] == nil })
		testenv.Eventually(t, "the log says so", func() bool { return len(log.Lines(logged)) > 0 })
	}
	accept("connected to Redis")
	count := func(text string, want int) {
		t.Helper()
		if lines := log.Lines(text); len(lines) != want {
			t.Errorf("%d lines say %q, want %d: %s", len(lines), text, want, strings.Join(lines, ""))
		}
	}
	count("connected to Redis", 1)
	count("Redis unavailable", 1)
	count("no connection since the start", 0)
	if line := log.Lines("connected to Redis")[0]; !strings.Contains(line, " after=") {
		t.Errorf("the line does not say after how long: %s", line)
	}
	if h := r.Health(t.Context()); !h.Store.Since.IsZero() {
		t.Errorf("connected, and health says since %v", h.Store.Since)
	}
	count("redisMode=standalone", 1)
	loaded := len(log.Lines("loaded the decision script"))

	proxy.Refuse()
	proxy.Cut()
	testenv.Eventually(t, "Redis is away", func() bool { return r.check(t, "ada")["degraded"] == true })
	r.crowd(t)
	accept("Redis answers again")
	r.crowd(t)
	count("Redis does not answer", 1)
	count("Redis answers again", 1)

	client := goredis.NewClient(&goredis.Options{Addr: redis.Addr()})
	defer client.Close()
	testenv.Eventually(t, "the script is loaded again", func() bool { // more than a second after the last time
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		r.crowd(t)
		return len(log.Lines("loaded the decision script")) > loaded
	})
	r.crowd(t)
	count("loaded the decision script", loaded+1)
}

// An outage that begins within a second of another one is logged too, and so is a
// Redis that has lost its data.
func TestLog_OutageAfterOutage(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, redis.Addr())
	r, log := startLogged(t, "redis.uri=redis://"+proxy.Addr(), "rules.file="+rulesFile(t, 1_000_000), "reload.strategy=POLLING")
	r.check(t, "ada")
	for outage := range 2 {
		proxy.Refuse()
		proxy.Cut()
		testenv.Eventually(t, "the outage is logged", func() bool {
			r.check(t, "ada")
			return len(log.Lines("Redis does not answer")) == outage+1
		})
		if err := proxy.Accept(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "its end is logged", func() bool {
			r.check(t, "ada")
			return len(log.Lines("Redis answers again")) == outage+1
		})
	}
	client := goredis.NewClient(&goredis.Options{Addr: redis.Addr()})
	defer client.Close()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.ScriptFlush(t.Context()).Err(); err != nil { // so that the record is looked at now
		t.Fatal(err)
	}
	testenv.Eventually(t, "the loss is logged", func() bool {
		r.check(t, "ada")
		return len(log.Lines("Redis has lost its data")) == 1
	})
}

// A start without rules, a caller that is refused and a rule set that is gone are said.
func TestLog_WhatStopsLimiting(t *testing.T) {
	t.Parallel() // it mostly waits
	_, log := startLogged(t, "redis.enabled=false", "rules.file="+filepath.Join(t.TempDir(), "missing.yaml"))
	testenv.Eventually(t, "the start without rules is logged", func() bool { return len(log.Lines("health is down")) == 1 })

	file := rulesFile(t, 5)
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+file, `server.auth.tokens=[{name: ada, sha256: `+hashOf("ada")+`, roles: [check]}]`)
	for range 3 {
		if a := r.do(t, http.MethodPost, "/v1/check", `{}`); a.status != http.StatusUnauthorized {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if lines := log.Lines("request rejected: caller not authenticated"); len(lines) != 1 || !strings.Contains(lines[0], "/v1/check") {
		t.Errorf("%d lines say that callers are refused: %s", len(lines), lines)
	}
	write(t, file, "id: api-limit\nrules: []\n")
	testenv.Eventually(t, "the loss of the rule set is logged", func() bool {
		lines := log.Lines("rule set deleted in the source")
		return len(lines) == 1 && strings.Contains(lines[0], "ERROR")
	})
}

// A file without the default rule set: health and log name it, and what the file has.
func TestLog_DefaultRuleSetMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, "id: my-limits\nrules: []\n")
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+file)
	const missing = "the source has no rule set api-limits (ratelimit.default-rule-set-id)"
	a := r.do(t, http.MethodGet, "/v1/health", "")
	if rules := a.object(t)["rules"].(map[string]any); a.status != http.StatusServiceUnavailable || rules["error"] != missing {
		t.Errorf("%d %s", a.status, a.body)
	}
	testenv.Eventually(t, "it is logged", func() bool { return len(log.Lines("health is down")) == 1 })
	line := log.Lines("health is down")[0]
	if remedy := "add the rule set to " + file; !strings.Contains(line, missing) || !strings.Contains(line, remedy) || strings.Contains(line, "rules.file") {
		t.Errorf("the log has %s", line)
	}
}

// The default rule set is not in Redis.
func TestLog_DefaultRuleSetMissingInRedis(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	r, log := startLogged(t, "redis.uri="+redis.URI(), "rules.source=redis")
	if h := r.Health(t.Context()); h.Status != "down" || !strings.HasPrefix(h.Rules.Error, "the source has no rule set ") {
		t.Errorf("%+v", h.Rules)
	}
	testenv.Eventually(t, "the remedy is logged", func() bool {
		lines := log.Lines("health is down")
		return len(lines) == 1 && strings.Contains(lines[0], "fluxgate rules apply -f FILE")
	})
}

// A rule source that is slower than the start is no error.
func TestLog_RulesSoonAfterTheStart(t *testing.T) {
	t.Parallel() // it mostly waits
	file := filepath.Join(t.TempDir(), "rules.yaml")
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+file)
	write(t, file, "id: api-limits\nrules: []\n")
	testenv.Eventually(t, "the rules are loaded", func() bool { return r.do(t, http.MethodGet, "/readyz", "").status == http.StatusOK })
	time.Sleep(2500 * time.Millisecond) // longer than the server waits
	if lines := log.Lines("health is down"); len(lines) > 0 {
		t.Errorf("the log has %q", lines)
	}
}

// crowd makes 50 decisions at once.
func (r *running) crowd(t *testing.T) {
	t.Helper()
	if a := r.do(t, http.MethodPost, "/v1/check:batch", `{"requests":[{"userId":"ada"}`+strings.Repeat(`,{"userId":"ada"}`, 49)+`]}`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// A freeze of a moment is said once, whether one caller asks or many do.
func TestLog_ShortFreeze(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	for name, c := range map[string]struct {
		leases  string
		callers int
	}{"one caller": {"off", 1}, "one caller with leases": {"auto", 1}, "many callers": {"off", 20}} {
		t.Run(name, func(t *testing.T) {
			r, log := startLogged(t, "redis.timeout=300ms", "redis.uri=redis://"+redis.Addr(), "redis.leases="+c.leases, "rules.file="+rulesFile(t, 1_000_000), "reload.strategy=POLLING")
			send := func(d time.Duration) {
				var callers sync.WaitGroup
				for range c.callers {
					callers.Go(func() {
						for end := time.Now().Add(d); time.Now().Before(end); {
							r.check(t, "ada")
						}
					})
				}
				callers.Wait()
			}
			send(300 * time.Millisecond)
			if err := redis.Freeze(); err != nil {
				t.Fatal(err)
			}
			send(1500 * time.Millisecond)
			if err := redis.Thaw(); err != nil {
				t.Fatal(err)
			}
			lines := func() []string {
				return append(log.Lines("Redis fails decisions"), log.Lines("Redis does not answer")...)
			}
			testenv.Eventually(t, "the freeze is logged", func() bool {
				r.check(t, "ada")
				return len(lines()) > 0
			})
			send(500 * time.Millisecond)
			if n := len(lines()); n != 1 {
				t.Errorf("%d lines say it: %q", n, lines())
			}
		})
	}
}
