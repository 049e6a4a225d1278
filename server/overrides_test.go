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
			a := r.do(f, http.MethodPost, "/v1/check", request)
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
