package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

// put makes the rules of a server, of one rule for every user.
func (r *running) put(t testing.TB, capacity int, headers ...string) answer {
	t.Helper()
	body := fmt.Sprintf(`{"id":"api-limits","rules":[{"id":"everyone","limitScope":"USER_ID","bands":[{"label":"hourly","capacity":%d,"refill":"1h"}]}]}`, capacity)
	return r.do(t, http.MethodPut, r.adminURL()+"/v1/rule-sets/api-limits", body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

var prefixes atomic.Int64

// inRedis are the settings of rules and buckets in Redis, for one test alone,
// and others.
func inRedis(t testing.TB, others ...string) []string {
	t.Helper()
	name := fmt.Sprintf("admin-%d", prefixes.Add(1))
	return append([]string{"redis.uri=" + testenv.SharedStandalone(t).URI(), "redis.prefix=" + name, "reload.channel=" + name, "rules.source=redis"}, others...)
}

func (r *running) adminURL() string { return "http://" + r.Addr("admin") }

// A change is in effect on this server when it is answered, and soon on others.
func TestAdmin_ChangeInEffect(t *testing.T) {
	// No server polls in time: only an announcement can reach the other one.
	set := inRedis(t, "reload.polling-interval=10m")
	one, other := start(t, set...), start(t, set...)
	if a := one.put(t, 3, "If-None-Match", "*"); a.status != http.StatusCreated || a.header.Get("ETag") != `"1"` {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if limit := one.check(t, "ada")["limit"]; limit != 3.0 {
		t.Errorf("the limit is %v when the change is answered", limit)
	}
	testenv.Eventually(t, "the other server has heard of it", func() bool { return other.check(t, "bob")["limit"] == 3.0 })
	if a := one.put(t, 30, "If-Match", `"1"`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	testenv.Eventually(t, "the other server has heard of the next", func() bool { return other.check(t, "eve")["limit"] == 30.0 })
}

// Requests of web pages are refused.
func TestAdmin_BrowserPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1), "server.admin-hosts=limits.example.com", "server.audit.file="+file)
	get := func(host string, headers ...string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.adminURL()+"/v1/validate", strings.NewReader(`{"id":"a","rules":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/plain") // what a page can send without being asked
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		if host != "" {
			req.Host = host
		}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for name, c := range map[string]struct {
		host    string
		headers []string
		refused bool
	}{
		"a program":                    {},
		"a name that is known":         {host: "limits.example.com:9090"},
		"a name that was led here":     {host: "evil.example:9090", refused: true},
		"a page of another site":       {headers: []string{"Sec-Fetch-Site", "cross-site"}, refused: true},
		"an old browser, another site": {headers: []string{"Origin", "https://evil.example"}, refused: true},
		"a page of our own":            {headers: []string{"Sec-Fetch-Site", "same-origin"}},
	} {
		if got := get(c.host, c.headers...); (got == http.StatusForbidden) != c.refused {
			t.Errorf("%s gets %d", name, got)
		}
	}
	// The rejected ones are in the audit, of a flood the first hundred.
	for range 200 {
		get("flood.example")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var record audit.Record
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Who != audit.Unauthenticated || record.From != "127.0.0.1" || record.Outcome != audit.Refused || record.Status != http.StatusForbidden {
			t.Errorf("the audit has %+v", record)
		}
		for _, sent := range []string{`Host "evil.example:9090"`, `Origin "https://evil.example"`} {
			if strings.Contains(record.Detail, sent) && strings.Contains(record.Detail, "POST /v1/validate") {
				found[record.Operation+" "+sent]++
			}
		}
		found[record.Operation]++
	}
	if found[`wrong-host Host "evil.example:9090"`] != 1 || found[`cross-site Origin "https://evil.example"`] != 1 || found["cross-site"] != 2 ||
		found["wrong-host"]+found["cross-site"] != 100 {
		t.Errorf("the audit has %v", found)
	}
}

// Rules in files can be read and not changed.
func TestAdmin_RulesInFiles(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 4))
	if a := r.do(t, http.MethodGet, r.adminURL()+"/v1/rule-sets/api-limits", ""); a.status != http.StatusOK || !strings.Contains(a.body, `"capacity":4`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.put(t, 9, "If-Match", "*"); a.status != http.StatusConflict || !strings.Contains(a.body, "edit the files") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if limit := r.check(t, "ada")["limit"]; limit != 4.0 {
		t.Errorf("the limit is %v", limit)
	}
}

// The audit file can be moved while the server runs.
func TestAudit_MovedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	r := start(t, inRedis(t, "server.audit.file="+file)...)
	lines := func(name string) []map[string]any {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var all []map[string]any
		for line := range strings.Lines(string(text)) {
			var record map[string]any
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			all = append(all, record)
		}
		return all
	}
	r.put(t, 1, "If-None-Match", "*")
	r.put(t, 2, "If-Match", `"7"`)
	if got := lines(file); len(got) != 2 || got[0]["outcome"] != "changed" || got[1]["outcome"] != "refused" || got[1]["from"] != "127.0.0.1" {
		t.Errorf("the audit says %v", got)
	}
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.put(t, 3, "If-Match", `"1"`)
	if got := lines(file); len(got) != 1 || got[0]["after"] != 2.0 {
		t.Errorf("the new file says %v", got)
	}

	// Where it was there is a folder now: it can neither be written nor made.
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	r.put(t, 4, "If-Match", `"2"`) // the last one that gets through
	a := r.put(t, 5, "If-Match", `"3"`)
	if h := r.Health(t.Context()); a.status != http.StatusServiceUnavailable || h.AuditError == "" {
		t.Errorf("with a broken audit a change answers %d %s, and health says %q", a.status, a.body, h.AuditError)
	}
	if scrape := r.do(t, http.MethodGet, r.adminURL()+"/metrics", "").body; !strings.Contains(scrape, "fluxgate_audit_broken 1") {
		t.Error("the metrics do not say so")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.put(t, 5, "If-Match", `"3"`) // is what tries it again
	if a := r.put(t, 5, "If-Match", `"3"`); a.status != http.StatusOK || r.Health(t.Context()).AuditError != "" {
		t.Errorf("with an audit that was mended a change answers %d %s", a.status, a.body)
	}
}

// Health and metrics need the role read on all rule sets.
func TestAdmin_AllRuleSets(t *testing.T) {
	token := func(name, ruleSets string) string {
		return fmt.Sprintf("{name: %s, sha256: %s, roles: [read], rule-sets: [%s]}", name, hashOf(name), ruleSets)
	}
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1), "server.auth.tokens=["+token("all", "")+", "+token("one", "api-limits")+"]")
	for _, path := range []string{"/metrics", "/v1/health"} {
		for name, want := range map[string]int{"all": http.StatusOK, "one": http.StatusForbidden} {
			if a := r.do(t, http.MethodGet, path, "", "Authorization", "Bearer "+name); a.status != want {
				t.Errorf("%s answers %d to who may read %s", path, a.status, name)
			}
		}
	}
}

// The admin listener ignores forwarded addresses of untrusted peers.
func TestAdmin_ClientAddress(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1), "ratelimit.trusted-proxies=127.0.0.0/8", "server.admin-rate=20",
		"server.auth.tokens=[{name: all, sha256: "+hashOf("all")+", roles: [read]}]")
	refused := 0
	for i := range 20 {
		a := r.do(t, http.MethodGet, r.adminURL()+"/v1/rule-sets", "", "Authorization", "Bearer wrong", "X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i))
		if a.status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 15 {
		t.Errorf("%d of 20 guesses are refused for being too many", refused)
	}
}

// A client certificate identifies the author of a change.
func TestAdmin_ClientCertificate(t *testing.T) {
	certs := testenv.NewCertificates(t)
	r := start(t, inRedis(t, "server.tls.cert-file="+certs.CertFile, "server.tls.key-file="+certs.KeyFile, "server.tls.client-ca-file="+certs.CAFile,
		"server.auth.certificates=[{name: ops, subject: localhost, roles: [write], rule-sets: [mine]}]")...)
	client, err := admin.NewClient("https://"+r.Addr("admin"), admin.ClientConfig{TLS: certs.ClientConfig()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	set := func(id string) *rules.Set {
		return fluxgate.Must(rules.NewSet(id, rules.Rule{ID: id + "-rule", Bands: []rules.Band{rules.PerMinute(1)}}))
	}
	if _, err := client.Put(t.Context(), set("mine"), rules.Change{Author: "somebody else"}); err != nil {
		t.Fatal(err)
	}
	if v, err := client.Load(t.Context(), "mine"); err != nil || v.Author != "certificate:ops" {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := client.Put(t.Context(), set("yours"), rules.Change{}); err == nil || admin.ProblemOf(err).Status != http.StatusForbidden {
		t.Errorf("on another rule set: %v", err)
	}
}

// An operator edits rules without a server.
func TestOperator_WithoutServer(t *testing.T) {
	c, err := config.Load(config.Sources{Set: inRedis(t, "mongo.enabled=false")})
	if err != nil {
		t.Fatal(err)
	}
	op, err := server.NewOperator(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if page, err := op.List(t.Context(), "", 0); err != nil || len(page) != 0 {
		t.Errorf("%v %v", page, err)
	}
	if err := op.Reset(t.Context(), admin.Reset{RuleSet: "none"}); !errors.Is(err, admin.ErrNoEngine) {
		t.Errorf("buckets are reset: %v", err)
	}
	if _, err := op.Delete(t.Context(), "none", rules.Change{Author: "ada"}); err == nil {
		t.Error("what does not exist is deleted")
	}
	if err := op.Close(); err != nil {
		t.Error(err)
	}
}

// The console is served without a role, to known hosts only; its API is not.
func TestAdmin_Console(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1), "server.auth.tokens=[{name: ops, sha256: "+strings.Repeat("a0", 32)+", roles: [read]}]")
	for path, want := range map[string]int{"/console/": http.StatusOK, "/console/app.js": http.StatusOK, "/console/none": http.StatusNotFound, "/v1/whoami": http.StatusUnauthorized} {
		if a := r.do(t, http.MethodGet, r.adminURL()+path, ""); a.status != want {
			t.Errorf("%s: %d, want %d", path, a.status, want)
		}
	}
	if a := r.do(t, http.MethodPost, r.adminURL()+"/console/", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d", a.status)
	}
	if a := r.do(t, http.MethodGet, r.adminURL()+"/", ""); a.status != http.StatusOK || !strings.Contains(a.body, `<div id="root">`) {
		t.Errorf("/ does not lead to the console: %d", a.status)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.adminURL()+"/console/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a name that was led here: %d", res.StatusCode)
	}
}
