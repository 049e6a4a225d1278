package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// overriding is servers with rules in one file that share overrides.
type overriding struct {
	testing.TB
	redis   *testenv.Server
	file    string
	copies  []string
	servers []*running
	token   string // of a gateway
}

// settings are those of a server.
func (f *overriding) settings(i int, more ...string) []string {
	return append([]string{"redis.uri=" + f.redis.URI(), "rules.file=" + f.file, "rules.copies=" + f.copies[i]}, more...)
}

func newOverriding(t testing.TB, rulesFile string, servers int, more ...string) *overriding {
	t.Helper()
	f := &overriding{TB: t, redis: testenv.StartStandalone(t, testenv.Config{}), file: rulesFile}
	for i := range servers {
		f.copies = append(f.copies, filepath.Join(t.TempDir(), "copies"))
		f.servers = append(f.servers, start(t, f.settings(i, more...)...))
	}
	return f
}

// manage calls the admin API of a server.
func (r *running) manage(t testing.TB, method, path, token, body string) answer {
	t.Helper()
	return r.as(t, token, method, r.adminURL()+path, body, nil)
}

const overridesPath = "/v1/rule-sets/api-limits/overrides"

// await waits until every server has this limit for a request.
func (f *overriding) await(what, request string, want int) {
	f.Helper()
	for i, r := range f.servers {
		testenv.Eventually(f, fmt.Sprintf("%s: server %d has the limit %d for %s", what, i, want, request), func() bool {
			a := r.as(f, f.token, http.MethodPost, r.url+"/v1/check", request, nil)
			return a.status == http.StatusOK && a.object(f)["limit"] == float64(want)
		})
	}
}

func (f *overriding) put(server int, token, body string) answer {
	f.Helper()
	return f.servers[server].manage(f, http.MethodPut, overridesPath, token, `{"overrides":[`+body+`]}`)
}

// change makes a change that must succeed.
func (f *overriding) change(server int, token, body string) {
	f.Helper()
	if a := f.put(server, token, body); a.status != http.StatusOK {
		f.Fatalf("%s: %d %s", body, a.status, a.body)
	}
}

func peek(user string) string { return fmt.Sprintf(`{"userId":%q,"cost":0}`, user) }

func ofUser(user string, more string) string {
	return fmt.Sprintf(`{"ruleId":"everyone","identity":{"userId":%q},%s}`, user, more)
}

// Overrides of rules in a file are in effect on all servers, survive a flush of Redis and a start of the
// whole fleet after one, and wait for a rule set that is missing.
func TestOverrides_OfFiles(t *testing.T) {
	f := newOverriding(t, rulesFile(t, 10), 3)
	f.change(0, "", ofUser("ada", `"times":3`))
	f.change(1, "", ofUser("bob", `"times":5`))
	f.change(2, "", ofUser("eve", `"times":7`))
	f.change(0, "", ofUser("eve", `"deleted":true`))
	all := func(what string) {
		t.Helper()
		f.await(what, peek("ada"), 30)
		f.await(what, peek("bob"), 50)
		f.await(what, peek("eve"), 10)
	}
	all("at first")
	flush := func() {
		t.Helper()
		if _, err := f.redis.Do(t.Context(), "FLUSHALL"); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	listed := func(what string, r *running, want int) {
		t.Helper()
		testenv.Eventually(t, what, func() bool {
			a := r.manage(t, http.MethodGet, overridesPath, "", "")
			return a.status == http.StatusOK && strings.Count(a.body, `"ruleId"`) == want
		})
	}
	for _, r := range f.servers {
		listed("overrides are restored", r, 2)
	}
	all("after a flush")
	f.change(1, "", ofUser("max", `"times":2`))
	f.await("after a flush", peek("max"), 20)

	for _, r := range f.servers {
		r.end(t)
	}
	flush()
	f.servers[0] = start(t, f.settings(0)...)
	f.servers = f.servers[:1]
	all("after a flush without servers")
	f.await("after a flush without servers", peek("max"), 20)
	testenv.Eventually(t, "health names it", func() bool {
		return strings.Contains(f.servers[0].do(t, http.MethodGet, "/v1/health", "").body, "were lost")
	})

	// The rule set is missing, and comes back.
	write(t, f.file, "id: other\nrules:\n  - {id: everyone, bands: [{capacity: 1, refill: 1h}]}\n")
	testenv.Eventually(t, "health names the missing rule set", func() bool {
		return strings.Contains(f.servers[0].do(t, http.MethodGet, "/v1/health", "").body, "rule set api-limits is missing")
	})
	listed("they wait", f.servers[0], 3)
	if a := f.put(0, "", ofUser("zoe", `"times":2`)); a.status != http.StatusNotFound {
		t.Errorf("an override of a missing rule set: %d %s", a.status, a.body)
	}
	f.change(0, "", ofUser("max", `"deleted":true`))
	writeRules(t, f.file, 100)
	f.await("when it is back", peek("ada"), 300)
	f.await("when it is back", peek("max"), 100)
	testenv.Eventually(t, "health does not name it", func() bool {
		return !strings.Contains(f.servers[0].do(t, http.MethodGet, "/v1/health", "").body, "is missing")
	})
}

// Without Redis a server has its overrides again after a restart.
func TestOverrides_WithoutRedis(t *testing.T) {
	settings := []string{"redis.enabled=false", "rules.file=" + rulesFile(t, 10), "rules.copies=" + t.TempDir()}
	f := &overriding{TB: t, servers: []*running{start(t, settings...)}}
	f.change(0, "", ofUser("ada", `"times":3`))
	f.await("at first", peek("ada"), 30)
	f.servers[0].end(t)
	f.servers[0] = start(t, settings...)
	f.await("after a restart", peek("ada"), 30)
	f.change(0, "", ofUser("ada", fmt.Sprintf(`"times":4,"until":%q`, time.Now().Add(time.Hour).Format(time.RFC3339))))
	f.await("after a change", peek("ada"), 40)
}

// People with the role support give callers of rules in a file other numbers, by user and by
// descriptor. These are in effect on all servers, also after a flush of Redis, until they end. They may
// do nothing else.
func TestOverrides_Support(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `id: api-limits
rules:
  - {id: everyone, path: /users, limitScope: USER_ID, bands: [{label: hourly, capacity: 10, refill: 1h}]}
  - {id: clients, path: /clients, limitScope: COMPOSITE, compositeKeyFields: ["descriptor:client", ip], bands: [{capacity: 100, refill: 1h}]}
`)
	token := func(name, roles, ruleSets string) string {
		return fmt.Sprintf("{name: %s, sha256: %s, roles: [%s], rule-sets: [%s]}", name, hashOf(name), roles, ruleSets)
	}
	f := newOverriding(t, file, 3, "server.auth.tokens=["+strings.Join([]string{
		token("gateway", "check", ""), token("support", "support", ""), token("tenant", "support", "other"), token("reader", "read", ""),
	}, ", ")+"]")
	f.token = "gateway"
	user := func(name string) string { return fmt.Sprintf(`{"path":"/users","userId":%q,"cost":0}`, name) }
	const client = `{"path":"/clients","ip":"192.0.2.7","descriptor":[{"key":"plan","value":"x"},{"key":"client","value":"acme"}],"cost":0}`
	f.await("at first", user("ada"), 10)
	f.await("at first", client, 100)

	end := time.Now().Add(30 * time.Second)
	f.change(0, "support", ofUser("ada", fmt.Sprintf(`"times":3,"until":%q,"reason":"launch"`, end.Format(time.RFC3339Nano))))
	f.change(1, "support", `{"ruleId":"clients","identity":{"descriptor:client":"acme","ip":"192.0.2.7"},"times":5}`)
	f.await("raised", client, 500)
	if time.Now().Before(end.Add(-time.Second)) {
		listed := f.servers[2].manage(t, http.MethodGet, overridesPath, "support", "")
		if listed.status != http.StatusOK || !strings.Contains(listed.body, "launch") || !strings.Contains(listed.body, "token:support") {
			t.Errorf("the list is %d %s", listed.status, listed.body)
		}
	}
	if _, err := f.redis.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	f.await("after a flush", client, 500)
	for _, r := range f.servers {
		testenv.Eventually(t, "overrides are restored", func() bool {
			a := r.manage(t, http.MethodGet, overridesPath, "support", "")
			return a.status == http.StatusOK && strings.Count(a.body, `"ruleId"`) == 2
		})
	}
	f.await("after the end", user("ada"), 10)
	f.await("after the end", client, 500)
	f.change(2, "support", `{"ruleId":"clients","identity":{"descriptor:client":"acme","ip":"192.0.2.7"},"deleted":true}`)
	f.await("deleted", client, 100)

	for _, attack := range []struct{ token, method, path, body string }{
		{"support", http.MethodGet, "/v1/rule-sets", ""},
		{"support", http.MethodGet, "/v1/rule-sets/api-limits", ""},
		{"support", http.MethodPut, "/v1/rule-sets/api-limits", `{"id":"api-limits","rules":[]}`},
		{"support", http.MethodPut, "/v1/rule-sets/api-limits/rules/everyone", `{"id":"everyone","action":"allow"}`},
		{"support", http.MethodDelete, "/v1/rule-sets/api-limits", ""},
		{"support", http.MethodPost, "/v1/rule-sets/api-limits/buckets/reset", `{"rule":"everyone"}`},
		{"support", http.MethodPost, "/v1/rule-sets/api-limits/explain", `{"userId":"ada"}`},
		{"support", http.MethodGet, "/v1/fleet", ""},
		{"tenant", http.MethodGet, overridesPath, ""},
		{"tenant", http.MethodPut, overridesPath, `{"overrides":[` + ofUser("ada", `"times":9`) + `]}`},
		{"reader", http.MethodPut, overridesPath, `{"overrides":[` + ofUser("ada", `"times":9`) + `]}`},
		{"gateway", http.MethodGet, overridesPath, ""},
	} {
		if a := f.servers[0].manage(t, attack.method, attack.path, attack.token, attack.body); a.status != http.StatusForbidden {
			t.Errorf("%s %s by %s answers %d %s", attack.method, attack.path, attack.token, a.status, a.body)
		}
	}
	if a := f.servers[0].manage(t, http.MethodGet, "/v1/callers", "support", ""); a.status != http.StatusOK {
		t.Errorf("the callers: %d %s", a.status, a.body)
	}
	for _, identity := range []string{
		`{"descriptor:client":"acme"}`, `{"descriptor:client":"acme","ip":"nowhere"}`, `{"descriptor:other":"acme","ip":"192.0.2.7"}`,
		`{"descriptor":"client=acme","ip":"192.0.2.7"}`, `{"descriptor:client":"","ip":"192.0.2.7"}`, `{"userId":"ada"}`,
	} {
		a := f.put(0, "support", `{"ruleId":"clients","identity":`+identity+`,"times":2}`)
		if a.status != http.StatusUnprocessableEntity {
			t.Errorf("the identity %s: %d %s", identity, a.status, a.body)
		}
	}
}
