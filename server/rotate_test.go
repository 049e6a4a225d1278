package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// acl runs an ACL command on servers of Redis.
func acl(t testing.TB, servers []*testenv.Server, args ...any) {
	t.Helper()
	for _, s := range servers {
		if _, err := s.Do(t.Context(), append([]any{"ACL"}, args...)...); err != nil {
			t.Error(err)
		}
	}
}

// checkUntil decides requests of many callers until the result is called, which returns their
// number. None may be decided without Redis.
func (r *running) checkUntil(t *testing.T) (stop func() int64) {
	t.Helper()
	var all sync.WaitGroup
	var ended atomic.Bool
	var decided, degraded atomic.Int64
	for i := range 16 {
		all.Go(func() {
			for n := 0; !ended.Load(); n++ {
				body := fmt.Sprintf(`{"userId":"user-%d-%d","path":"/orders"}`, i, n)
				res, err := r.client.Post(r.url+"/v1/check", "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				var d struct {
					Allowed, Degraded bool
				}
				if err := json.NewDecoder(res.Body).Decode(&d); err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
				}
				_ = res.Body.Close()
				if d.Degraded {
					degraded.Add(1)
				}
				decided.Add(1)
				time.Sleep(2 * time.Millisecond) // or the callers would keep the machine busy
			}
		})
	}
	return func() int64 {
		ended.Store(true)
		all.Wait()
		if n := degraded.Load(); n > 0 {
			t.Errorf("%d of %d requests were decided without Redis", n, decided.Load())
		}
		return decided.Load()
	}
}

// A password rotates as a sidecar does it: the new one is added, the file is written, and the
// old one is removed 2 s later. Then the user is replaced and deleted, which closes its
// connections. No request is decided without Redis. The rules in Redis follow too.
func TestRotate_RedisPassword(t *testing.T) {
	operator := testenv.Config{Users: []testenv.User{{Name: "operator", Password: "operator-password"}}}
	for name, start := range map[string]func(*testing.T) (string, []*testenv.Server){
		"standalone": func(t *testing.T) (string, []*testenv.Server) {
			s := testenv.StartStandalone(t, operator)
			return s.Addr(), []*testenv.Server{s}
		},
		"cluster": func(t *testing.T) (string, []*testenv.Server) {
			c := testenv.StartCluster(t, operator)
			return strings.Join(c.Addrs(), ","), c.Nodes()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			hosts, servers := start(t)
			rotate(t, hosts, servers)
		})
	}
}

func rotate(t *testing.T, hosts string, servers []*testenv.Server) {
	t.Helper()
	folder := t.TempDir()
	userFile, passwordFile := filepath.Join(folder, "username"), filepath.Join(folder, "password")
	write(t, userFile, "app-0\n")
	write(t, passwordFile, "secret-0\n")
	acl(t, servers, "SETUSER", "app-0", "on", ">secret-0", "~*", "&*", "+@all")
	r, log := startLogged(t, "redis.uri=redis://"+hosts, "redis.username-file="+userFile, "redis.password-file="+passwordFile,
		"redis.leases=off", "rules.source=redis")
	if a := r.put(t, 100, "If-None-Match", "*"); a.status != http.StatusCreated {
		t.Fatal(a)
	}
	testenv.Eventually(t, "the rules are in effect", func() bool { return r.check(t, "ada")["limit"] == 100.0 })
	stop := r.checkUntil(t)
	for i := 1; i <= 2; i++ {
		acl(t, servers, "SETUSER", "app-0", fmt.Sprint(">secret-", i))
		write(t, passwordFile, fmt.Sprintf("secret-%d\n", i))
		time.Sleep(2 * time.Second) // docs/security.md: a server uses new credentials within a second
		acl(t, servers, "SETUSER", "app-0", fmt.Sprint("<secret-", i-1))
	}
	acl(t, servers, "SETUSER", "app-1", "on", ">secret-of-app-1", "~*", "&*", "+@all")
	write(t, userFile, "app-1")
	write(t, passwordFile, "secret-of-app-1")
	time.Sleep(2 * time.Second) // likewise both users
	acl(t, servers, "DELUSER", "app-0")
	time.Sleep(500 * time.Millisecond) // more requests, without the former user
	if n := stop(); n < 200 {
		t.Errorf("only %d requests", n)
	}
	write(t, passwordFile, "") // the last one stays in use
	testenv.Eventually(t, "health names the empty file", func() bool {
		return strings.Contains(strings.Join(r.Health(t.Context()).Warnings, "\n"), "redis.password-file: names a file with 0 bytes")
	})
	if d := r.check(t, "ada"); d["degraded"] != nil {
		t.Errorf("with an empty file: %v", d)
	}
	if h := r.Health(t.Context()); h.Status != "up" {
		t.Errorf("health %+v", h)
	}
	const kept = "cannot read credentials: the last ones stay in use"
	testenv.Eventually(t, "the log names the empty file", func() bool { return len(log.Lines(kept)) > 0 })
	if len(log.Lines(kept)) != 1 || strings.Contains(log.String(), "secret-") {
		t.Errorf("it logs %s", log)
	}
}

// A token of the check API and one of the admin API rotate without a restart. While the
// file cannot be read the last tokens are accepted.
func TestRotate_Tokens(t *testing.T) {
	t.Parallel() // it mostly waits
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	tokens := func(generation string) {
		write(t, file, fmt.Sprintf("tokens:\n  - {name: api, sha256: %s, roles: [check]}\n  - {name: admin, sha256: %s, roles: [write]}\n",
			hashOf("api-"+generation), hashOf("admin-"+generation)))
	}
	tokens("one")
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000), "server.auth.tokens-file="+file)
	accepts := func(generation string) (api, admin bool) {
		body := `{"userId":"ada"}`
		check := r.do(t, http.MethodPost, "/v1/check", body, "Authorization", "Bearer api-"+generation)
		list := r.do(t, http.MethodGet, r.adminURL()+"/v1/rule-sets", "", "Authorization", "Bearer admin-"+generation)
		return check.status == http.StatusOK, list.status == http.StatusOK
	}
	if api, admin := accepts("one"); !api || !admin {
		t.Fatal("the first tokens are not accepted", api, admin)
	}
	tokens("two")
	testenv.Eventually(t, "the new tokens are accepted", func() bool { api, admin := accepts("two"); return api && admin })
	if api, admin := accepts("one"); api || admin {
		t.Error("the former tokens are accepted", api, admin)
	}
	for _, broken := range []string{"", "tokens: [{name: api, sha256: no"} {
		write(t, file, broken)
		testenv.Eventually(t, "health names the file", func() bool { return len(r.Health(t.Context()).Warnings) > 0 })
		if api, admin := accepts("two"); !api || !admin {
			t.Errorf("with the file %q the last tokens are not accepted", broken)
		}
	}
	testenv.Eventually(t, "the log says so", func() bool { return len(log.Lines("cannot load changed files: the last tokens stay in use")) == 1 })
	tokens("three")
	testenv.Eventually(t, "a valid file is used again", func() bool { api, admin := accepts("three"); return api && admin })
}
