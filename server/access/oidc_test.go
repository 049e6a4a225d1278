package access_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/access/accesstest"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/go-jose/go-jose/v4"
)

// issued is an issuer, and a guard that takes its tokens.
func issued(t testing.TB, set ...string) (*accesstest.Issuer, *access.Guard) {
	t.Helper()
	issuer := accesstest.NewIssuer(t)
	return issuer, guardOf(t, append([]string{"server.auth.oidc.issuer=" + issuer.URL, "server.auth.oidc.audience=" + accesstest.Audience}, set...)...)
}

type claims = map[string]any

// bear asks a guard about a token.
func bear(guard *access.Guard, token string) (string, error) {
	who, err := guard.Identify(with("Bearer " + token))
	return outcome(who, err), err
}

// Tokens of the issuer are accepted.
func TestOIDC_Accepted(t *testing.T) {
	issuer, guard := issued(t)
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256} {
		who, err := guard.Identify(with("Bearer " + issuer.Signed(algorithm, claims{"roles": []string{"fluxgate-read", "offline", "check", "write", "fluxgate-", "fluxgate-admin"}})))
		if err != nil || who.Name != "oidc:ada" || !who.MayAll(config.RoleRead) || who.MayAny(config.RoleWrite) || who.MayAny(config.RoleCheck) {
			t.Errorf("%s: %+v, %v", algorithm, who, err)
		}
	}
	if who, err := guard.Identify(with("Bearer " + issuer.Token(claims{"aud": []string{"other", accesstest.Audience}}))); err != nil || who.MayAny(config.RoleRead) {
		t.Errorf("without roles: %+v, %v", who, err)
	}
	if asked := issuer.Asked(); asked != 1 {
		t.Errorf("the issuer was asked %d times", asked)
	}
}

// tampered is a token whose claims were changed after it was signed.
func tampered(token string) string {
	parts := strings.Split(token, ".")
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), "ada", "eve", 1)))
	return strings.Join(parts, ".")
}

// Invalid tokens are refused.
func TestOIDC_Refused(t *testing.T) {
	issuer, guard := issued(t)
	now := time.Now()
	good := issuer.Token(nil)
	_, rest, _ := strings.Cut(good, ".")
	header := base64.RawURLEncoding.EncodeToString
	tokens := map[string]string{
		"expired":                issuer.Expired(nil),
		"without an end":         issuer.Token(claims{"exp": nil}),
		"not good yet":           issuer.Token(claims{"nbf": now.Add(time.Hour).Unix()}),
		"for another audience":   issuer.Token(claims{"aud": "another"}),
		"for nobody":             issuer.Token(claims{"aud": nil}),
		"of another issuer":      issuer.Token(claims{"iss": "https://login.example.com"}),
		"of no issuer":           issuer.Token(claims{"iss": nil}),
		"of nearly the issuer":   issuer.Token(claims{"iss": issuer.URL + "/"}),
		"signed by another":      issuer.Forged(nil),
		"with an unknown key":    issuer.UnknownKey("unknown", nil),
		"without a key":          issuer.UnknownKey("", nil),
		"not signed":             issuer.Unsigned(nil),
		"changed":                tampered(good),
		"without its signature":  good[:strings.LastIndex(good, ".")+1],
		"with another algorithm": header([]byte(`{"alg":"none"}`)) + "." + rest,
		"of nothing":             "..",
		"garbage":                "a.b.c",
		"garbage in base64":      header([]byte("garbage")) + "." + header([]byte("{}")) + "." + header([]byte("x")),
		"too long":               issuer.Token(claims{"more": strings.Repeat("x", access.MaxToken)}),
		"about nobody":           issuer.Token(claims{"sub": nil}),
		"about spaces":           issuer.Token(claims{"sub": "  "}),
		"about two lines":        issuer.Token(claims{"sub": "ada\nroot"}),
		"about a trick":          issuer.Token(claims{"sub": "ada\u202eroot"}),
		"about a number":         issuer.Token(claims{"sub": claims{"name": "ada"}}),
		"about a long name":      issuer.Token(claims{"sub": strings.Repeat("x", 252)}),
		"with the JSON around":   `{"payload":"e30","signatures":[]}`,
		"of half a time":         issuer.Token(claims{"exp": "soon"}),
	}
	for i, token := range issuer.Symmetric(nil) {
		tokens["symmetric "+string(rune('1'+i))] = token
	}
	// The keys are known before, as they are where it matters.
	if got, err := bear(guard, good); got != "oidc:ada" {
		t.Fatalf("a good token: %s (%v)", got, err)
	}
	for name, token := range tokens {
		got, err := bear(guard, token)
		if got != "refused" {
			t.Errorf("%s: %s (%v)", name, got, err)
			continue
		}
		for part := range strings.SplitSeq(token, ".") {
			if len(part) > 8 && strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "root") || len(err.Error()) > 200 {
				t.Errorf("%s: the error shows the token: %v", name, err)
			}
		}
	}
	for name, says := range map[string]string{
		"expired": "has expired", "signed by another": "not signed by a key of the issuer", "with an unknown key": "not signed by a key of the issuer",
		"not signed": "signature algorithm that is not accepted", "symmetric 1": "signature algorithm that is not accepted", "for another audience": "another issuer or audience", "about two lines": "no valid name in claim sub",
	} {
		if _, err := bear(guard, tokens[name]); !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	if got, err := bear(guard, good); got != "oidc:ada" {
		t.Errorf("a good token after all that: %s (%v)", got, err)
	}
}

// Claims set roles and rule sets.
func TestOIDC_Claims(t *testing.T) {
	issuer := accesstest.NewIssuer(t)
	type rights struct {
		name           string
		write, a, b    bool
		all, somewhere bool
	}
	for _, c := range []struct {
		name   string
		set    []string
		claims claims
		want   rights
	}{
		{"a path", []string{"roles-claim=realm_access.roles", "name-claim=email"}, claims{"realm_access": claims{"roles": []any{"fluxgate-read", 7, nil}}, "email": "ada@example.com"},
			rights{name: "oidc:ada@example.com", a: true, b: true, all: true, somewhere: true}},
		{"a name with dots", []string{"roles-claim=https://example.com/roles"}, claims{"https://example.com/roles": []string{"fluxgate-read"}},
			rights{name: "oidc:ada", a: true, b: true, all: true, somewhere: true}},
		{"a path that ends early", []string{"roles-claim=a.b.c"}, claims{"a": claims{"b": []string{"fluxgate-read"}}, "b": "fluxgate-read"}, rights{name: "oidc:ada"}},
		{"a text", []string{"roles-claim=scope", "role-prefix=flux:"}, claims{"scope": "openid flux:write fluxgate-read"},
			rights{name: "oidc:ada", write: true, a: true, b: true, all: true, somewhere: true}},
		{"no prefix", []string{"role-prefix="}, claims{"roles": []string{"read"}}, rights{name: "oidc:ada", a: true, b: true, all: true, somewhere: true}},
		{"another case", nil, claims{"roles": []string{"Fluxgate-Read"}}, rights{name: "oidc:ada"}},
		{"some rule sets", []string{"rule-sets-claim=teams"}, claims{"roles": []string{"fluxgate-write"}, "teams": []string{"a", "not an id"}},
			rights{name: "oidc:ada", write: true, a: true, somewhere: true}},
		{"all rule sets", []string{"rule-sets-claim=teams"}, claims{"roles": []string{"fluxgate-write"}, "teams": "a *"},
			rights{name: "oidc:ada", write: true, a: true, b: true, all: true, somewhere: true}},
		{"no rule sets", []string{"rule-sets-claim=teams"}, claims{"roles": []string{"fluxgate-write"}}, rights{name: "oidc:ada"}},
		{"an empty list of rule sets", []string{"rule-sets-claim=teams"}, claims{"roles": []string{"fluxgate-write"}, "teams": []string{}}, rights{name: "oidc:ada"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := []string{"server.auth.oidc.issuer=" + issuer.URL, "server.auth.oidc.audience=" + accesstest.Audience}
			for _, s := range c.set {
				set = append(set, "server.auth.oidc."+s)
			}
			guard := guardOf(t, set...)
			who, err := guard.Identify(with("Bearer " + issuer.Token(c.claims)))
			if err != nil {
				t.Fatal(err)
			}
			const read = config.RoleRead
			if got := (rights{who.Name, who.MayAny(config.RoleWrite), who.May(read, "a"), who.May(read, "b"), who.MayAll(read), who.MayAny(read)}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if sets := who.RuleSets(); !c.want.all && len(c.set) > 0 && strings.HasPrefix(c.set[0], "rule-sets") && sets == nil {
				t.Error("no rule sets are shown as all")
			}
		})
	}
}

// A token is accepted until its end, and while its key is known.
func TestOIDC_End(t *testing.T) {
	issuer, guard := issued(t)
	var since time.Duration
	begin := time.Now()
	guard.SetClock(func() time.Time { return begin.Add(since) })
	lasting, ending := issuer.Token(nil), issuer.Token(claims{"exp": begin.Add(30 * time.Second).Unix()})
	for _, token := range []string{lasting, ending} {
		if got, err := bear(guard, token); got != "oidc:ada" {
			t.Fatalf("%s (%v)", got, err)
		}
	}
	issuer.Rotate()
	since = 45 * time.Second
	if got, _ := bear(guard, lasting); got != "oidc:ada" {
		t.Errorf("while the key is known: %s", got)
	}
	if got, err := bear(guard, ending); got != "refused" {
		t.Errorf("after its end: %s (%v)", got, err)
	}
	// The keys are fetched anew when they are old, and the token is one of the
	// keys that are gone.
	since = access.KeysFresh
	if got, err := bear(guard, lasting); got != "refused" {
		t.Errorf("after its key was withdrawn: %s (%v)", got, err)
	}
	fresh := issuer.Token(nil)
	if got, err := bear(guard, fresh); got != "oidc:ada" {
		t.Fatalf("%s (%v)", got, err)
	}
}

// A static token needs no issuer.
func TestOIDC_StaticToken(t *testing.T) {
	issuer, guard := issued(t, "server.auth.tokens=[{name: dotted, sha256: "+hashOf("a.b.c")+", roles: [read]}]")
	issuer.Away(true)
	if got, err := bear(guard, "a.b.c"); got != "token:dotted" || issuer.Asked() != 0 {
		t.Errorf("%s (%v), asked %d times", got, err, issuer.Asked())
	}
	if got, err := bear(guard, "no-token"); got != "refused" || issuer.Asked() != 0 {
		t.Errorf("%s (%v), asked %d times", got, err, issuer.Asked())
	}
	if _, err := bear(guard, issuer.Token(nil)); !errors.Is(err, access.ErrIssuerUnavailable) {
		t.Errorf("%v", err)
	}
}
