package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// get returns the status and body of a page, 0 if there is no answer within a
// second.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

// beginStart starts a server and returns before it has started. started gets the
// server.
func beginStart(t *testing.T, set ...string) (clientURL, adminURL string, started <-chan *running) {
	t.Helper()
	client, admin := testenv.FreeAddr(t), testenv.FreeAddr(t)
	result := make(chan *running, 1)
	go func() {
		defer close(result)
		result <- start(t, append(set, "server.http="+client, "server.admin="+admin)...)
	}()
	t.Cleanup(func() { <-result })
	return "http://" + client, "http://" + admin, result
}

// alive expects that liveness probes are answered within a second of the start,
// and that the server is not ready.
func alive(t *testing.T, stalls *testenv.Stalls, begun time.Time, urls ...string) {
	t.Helper()
	for _, url := range urls {
		testenv.Eventually(t, "the server answers", func() bool {
			status, body := get(t, url+"/healthz")
			return status == http.StatusOK && body == "alive\n"
		})
	}
	if took := stalls.Since(begun); took > time.Second {
		t.Errorf("/healthz answers %v after the start", took)
	}
	for _, url := range urls {
		if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "not ready: starting") {
			t.Errorf("/readyz of a server that starts: %d %s", status, body)
		}
	}
}

// With a frozen Redis a server is alive at once, and decides in seconds.
func TestStart_RedisFrozen(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	redis := testenv.StartStandalone(t, testenv.Config{})
	if err := redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	stalls, begun := testenv.WatchStalls(t), time.Now()
	client, admin, started := beginStart(t, shortTimeout, "redis.uri="+redis.URI(), "rules.file="+rulesFile(t, 3))
	alive(t, stalls, begun, client, admin)
	r := <-started
	if took := stalls.Since(begun); took > 4*time.Second {
		t.Errorf("it started after %v", took)
	}
	if d := r.check(t, "ada"); d["degraded"] != true || d["limit"] != 3.0 {
		t.Errorf("%v", d)
	}
	if h := r.Health(t.Context()); h.Status != "degraded" || h.Store.Error == "" {
		t.Errorf("health %+v", h)
	}
	if status, body := get(t, client+"/readyz"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if err := redis.Thaw(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "Redis decides", func() bool { return r.check(t, "bob")["degraded"] == nil })
}

// With a frozen MongoDB a server is alive at once. It decides by the copies of its
// rules, and without copies it is not ready until it has rules.
func TestStart_MongoFrozen(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	mongo := testenv.StartMongo(t)
	if !mongo.Owned() {
		t.Skip("cannot freeze this MongoDB")
	}
	copies := t.TempDir()
	settings := []string{"redis.enabled=false", "mongo.enabled=true", "mongo.uri=" + mongo.URI(), "mongo.database=frozen"}
	before := start(t, append(settings, "rules.copies="+copies)...)
	if a := before.put(t, 7, "If-None-Match", "*"); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	before.end(t)
	if err := mongo.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mongo.Thaw() }()

	stalls, begun := testenv.WatchStalls(t), time.Now()
	client, admin, started := beginStart(t, append(settings, "rules.copies="+copies)...)
	alive(t, stalls, begun, client, admin)
	r := <-started
	if took := stalls.Since(begun); took > 4*time.Second {
		t.Errorf("it started after %v", took)
	}
	if d := r.check(t, "ada"); d["limit"] != 7.0 {
		t.Errorf("the copy does not decide: %v", d)
	}
	if h := r.Health(t.Context()); h.Status != "degraded" || h.Rules.Sets[0].Source != "copy" || h.Rules.Sets[0].Error == "" {
		t.Errorf("health %+v", h)
	}
	if status, body := get(t, r.adminURL()+"/v1/fleet"); status != http.StatusOK || !strings.Contains(body, `"revisions":{"api-limits":1}`) {
		t.Errorf("the fleet does not show the revision of the copy: %d %s", status, body)
	}
	if status, body := get(t, client+"/readyz"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}

	begun = time.Now()
	client, admin, started = beginStart(t, settings...)
	alive(t, stalls, begun, client, admin)
	without := <-started
	if status, body := get(t, client+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no rules are loaded for ratelimit.default-rule-set-id") {
		t.Errorf("%d %s", status, body)
	}
	if err := mongo.Thaw(); err != nil {
		t.Fatal(err)
	}
	for _, each := range []*running{r, without} {
		testenv.Eventually(t, "the source's rules decide", func() bool {
			return each.check(t, "bob")["limit"] == 7.0 && each.Health(t.Context()).Status == "up"
		})
	}
}

// A server that cannot start closes its listeners.
func TestStart_Fails(t *testing.T) {
	addr := testenv.FreeAddr(t)
	c, err := config.Load(config.Sources{Set: []string{
		"server.http=" + addr, "server.admin=", "redis.enabled=false", "mongo.enabled=false", "rules.file=" + rulesFile(t, 1), "rules.copies=/dev/null/copies",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.New(t.Context(), c, server.Options{}); err == nil || !strings.Contains(err.Error(), "copies") {
		t.Errorf("error %v", err)
	}
	if status, body := get(t, "http://"+addr+"/healthz"); status != 0 {
		t.Errorf("it still answers: %d %s", status, body)
	}
}
