package access_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
)

// Roles are for rule sets.
func TestIdentity_RuleSets(t *testing.T) {
	guard := guardOf(t, "server.auth.tokens=[{name: w, sha256: "+hashOf("w")+", roles: [write]}, {name: r, sha256: "+hashOf("r")+", roles: [read]},"+
		"{name: c, sha256: "+hashOf("c")+", roles: [check]}, {name: s, sha256: "+hashOf("s")+", roles: [support]}, {name: all, sha256: "+hashOf("all")+", roles: [check, write]},"+
		"{name: some, sha256: "+hashOf("some")+", roles: [check, write], rule-sets: [b, a]}]")
	const check, read, write, support = config.RoleCheck, config.RoleRead, config.RoleWrite, config.RoleSupport
	all := []config.Role{check, read, write, support}
	for token, roles := range map[string][]config.Role{"w": all, "r": {read}, "c": {check}, "s": {support}, "all": all, "some": all} {
		who, err := guard.Identify(with("Bearer " + token))
		if err != nil || who.Name != "token:"+token {
			t.Fatalf("%s: %v, %v", token, who, err)
		}
		for _, role := range config.Roles {
			has := slices.Contains(roles, role)
			if who.May(role, "a") != has || who.MayAny(role) != has {
				t.Errorf("%s may %s on a: %t, want %t", token, role, who.May(role, "a"), has)
			}
			everywhere := has && token != "some"
			if who.May(role, "c") != everywhere || who.May(role, "") != everywhere || who.MayAll(role) != everywhere {
				t.Errorf("%s may %s on every rule set: %t, want %t", token, role, who.MayAll(role), everywhere)
			}
		}
		if sets := who.RuleSets(); token == "some" && !slices.Equal(sets, []string{"a", "b"}) || token != "some" && sets != nil {
			t.Errorf("%s is for %v", token, sets)
		}
	}
	for _, nobody := range []*access.Identity{nil, access.From(t.Context()), new(access.Identity)} {
		if nobody.May(read, "a") || nobody.MayAny(read) || nobody.MayAll(read) {
			t.Error("an unknown caller may read")
		}
	}
}

// A token is identified by its hash.
func TestTokens_Hash(t *testing.T) {
	guard := guardOf(t, "server.auth.tokens=[{name: ci, sha256: "+strings.ToUpper(hashOf("secret"))+", roles: [check]}]")
	for _, c := range []struct {
		sent []string
		want string
	}{
		{nil, "nobody"},
		{[]string{"Bearer secret"}, "token:ci"},
		{[]string{"bearer  secret"}, "token:ci"},
		{[]string{"Bearer Secret"}, "refused"},
		{[]string{"Bearer secret "}, "refused"},
		{[]string{"Bearer"}, "refused"},
		{[]string{""}, "refused"},
		{[]string{"Basic secret"}, "refused"},
		{[]string{"Bearer secret", "Bearer secret"}, "refused"},
		{[]string{"Bearer " + hashOf("secret")}, "refused"},
		{[]string{"Bearer " + strings.Repeat("x", access.MaxToken+1)}, "refused"},
		{[]string{"Bearer a.b.c"}, "refused"}, // as an issuer's, of which there is none
	} {
		who, err := guard.Identify(with(c.sent...))
		if got := outcome(who, err); got != c.want {
			t.Errorf("%.80q: %s, want %s (%v)", c.sent, got, c.want, err)
		}
		if err != nil && strings.Contains(err.Error(), "ecret") {
			t.Errorf("the error shows what was sent: %v", err)
		}
	}
}

// Without authentication all callers have all roles.
func TestGuard_Open(t *testing.T) {
	guard := guardOf(t)
	for _, r := range []*http.Request{with(), with("Bearer anything")} {
		who, err := guard.Identify(r)
		if err != nil || who.Name != "anonymous" || !guard.Open() {
			t.Fatalf("%v, %v", who, err)
		}
		for _, role := range config.Roles {
			if !who.MayAll(role) {
				t.Errorf("anonymous may not %s", role)
			}
		}
	}
}

// Reload changes nothing if the tokens are invalid.
func TestGuard_Reload(t *testing.T) {
	entry := func(name string) string {
		return "  - {name: " + name + ", sha256: " + hashOf(name) + ", roles: [read]}\n"
	}
	file := write(t, "tokens.yaml", "tokens:\n"+entry("old"))
	guard := guardOf(t, "server.auth.tokens-file="+file)
	knows := func(token string) bool {
		who, err := guard.Identify(with("Bearer " + token))
		return err == nil && who.MayAny(config.RoleRead)
	}
	replace := func(text string) error {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return guard.Reload()
	}
	if err := replace("tokens:\n" + entry("new")); err != nil || knows("old") || !knows("new") {
		t.Errorf("after a reload: %v; old is known: %t, new is: %t", err, knows("old"), knows("new"))
	}
	for _, bad := range []string{"tokens: {", "tokens:\n" + entry("a") + entry("a"), "tokens: [{name: nothing, sha256: " + hashOf("") + ", roles: [read]}]",
		"tokens: [{name: word, sha256: " + hashOf("foo") + ", roles: [read]}]", "tokens: [{name: docs, sha256: " + strings.Repeat("0", 64) + ", roles: [read]}]",
	} {
		if err := replace(bad); err == nil || strings.Contains(err.Error(), hashOf("a")[:8]) {
			t.Errorf("%s: %v", bad, err)
		}
		if !knows("new") || knows("a") || knows("") {
			t.Errorf("after a bad file others may call")
		}
	}
	// An empty list denies all callers.
	if err := replace("tokens: []"); err != nil || knows("new") || guard.Open() {
		t.Errorf("with an empty file: %v", err)
	}
	if who, err := guard.Identify(with()); outcome(who, err) != "nobody" {
		t.Errorf("with an empty file: %v, %v", who, err)
	}
}

// refused is what a problem document says.
type refused struct {
	Status int
	Detail string
}

// Only passes the identity of the caller on.
func TestGuard_Only(t *testing.T) {
	guard := guardOf(t, "server.auth.tokens=[{name: w, sha256: "+hashOf("w")+", roles: [write]}, {name: c, sha256: "+hashOf("c")+", roles: [check], rule-sets: [a]}]")
	for _, c := range []struct {
		guard     *access.Guard
		sent      string
		role      config.Role
		passes    string // who is let through
		refused   refused
		challenge string
	}{
		{guard: guard, sent: "Bearer w", role: config.RoleRead, passes: "token:w"},
		{guard: guard, sent: "Bearer c", role: config.RoleCheck, passes: "token:c"},
		{guard: guard, sent: "Bearer w", role: config.RoleCheck, passes: "token:w"},
		{guard: guard, sent: "Bearer c", role: config.RoleRead, refused: refused{403, "token:c does not have the role read."}},
		{guard: guard, role: config.RoleRead, refused: refused{401, "The request needs a bearer token."}, challenge: "Bearer"},
		{guard: guard, sent: "Bearer x", role: config.RoleRead, refused: refused{401, "Not accepted: the token is not known."}, challenge: `Bearer error="invalid_token"`},
		{guard: guardOf(t), sent: "Bearer x", role: config.RoleWrite, passes: "anyone"},
	} {
		var passed string
		handler := c.guard.Only(c.role, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if passed = "anyone"; access.From(r.Context()) != nil {
				passed = access.From(r.Context()).Name
			}
		}))
		w, r := httptest.NewRecorder(), with()
		if c.sent != "" {
			r = with(c.sent)
		}
		handler.ServeHTTP(w, r)
		var got refused
		if err := json.Unmarshal(w.Body.Bytes(), &got); passed == "" && (err != nil || got.Status != w.Code) {
			t.Errorf("answered %d with %s", w.Code, w.Body)
		}
		if passed != c.passes || got != c.refused || w.Header().Get("WWW-Authenticate") != c.challenge {
			t.Errorf("%q as %s: passed %q, refused %+v, challenged %q", c.sent, c.role, passed, got, w.Header().Get("WWW-Authenticate"))
		}
	}
}

// An identity is passed in a context.
func TestIdentity_Context(t *testing.T) {
	who := &access.Identity{Name: "ada"}
	if got := access.From(access.With(context.Background(), who)); got != who {
		t.Errorf("%v", got)
	}
	if got := access.From(t.Context()); got != nil {
		t.Errorf("from nothing: %v", got)
	}
}

// Hosts must be listed unless they are addresses.
func TestHost_Listed(t *testing.T) {
	handler := access.Host("server.admin-hosts", []string{"Admin.Example.com", "dotted.example."}, func(*http.Request, string, string) {}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:9090": 200, "localhost.": 200, "127.0.0.1": 200, "127.0.0.1:9090": 200, "[::1]": 200, "[::1]:9090": 200, "192.0.2.1:80": 200,
		"[fe80::1%25eth0]:80": 200, "admin.example.com": 200, "ADMIN.example.COM.:9090": 200, "dotted.example": 200,
		"": 403, "evil.example": 403, "evil.example:9090": 403, "localhost.evil.example": 403, "evil.localhost": 403, "x.admin.example.com": 403, "admin.example.com.evil": 403,
		"127.0.0.1.evil.example": 403, "0x7f.1": 403, "[localhost": 403, "localhost:80:80": 403, "admin.example.com..": 403, ":80": 403, "admin.example.com@evil.example": 403,
	} {
		w, r := httptest.NewRecorder(), with()
		r.Host = host
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
	}
}

// Tokens can be reloaded during requests.
func TestGuard_ConcurrentReload(t *testing.T) {
	file := write(t, "tokens.yaml", "tokens: [{name: a, sha256: "+hashOf("a")+", roles: [read]}]")
	guard := guardOf(t, "server.auth.tokens-file="+file)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				if who, err := guard.Identify(with("Bearer a")); outcome(who, err) != "token:a" {
					t.Errorf("%v, %v", who, err)
				}
			}
		})
	}
	for range 20 {
		if err := guard.Reload(); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
}

// Any Authorization header, with one known token and an unavailable issuer.
func FuzzIdentify(f *testing.F) {
	guard := guardOf(f, "server.auth.tokens=[{name: a, sha256: "+hashOf("a")+", roles: [read]}]",
		"server.auth.oidc.issuer=http://127.0.0.1:1", "server.auth.oidc.audience=x")
	for _, seed := range []string{"", "Bearer", "Bearer a", "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.AAAA", "Basic a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		who, err := guard.Identify(with(sent))
		if got := outcome(who, err); got != "refused" && got != "away" && (got != "token:a" || !strings.HasSuffix(sent, " a")) {
			t.Errorf("%q: %s (%v)", sent, got, err)
		}
	})
}
