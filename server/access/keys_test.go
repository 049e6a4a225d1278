package access_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/access/accesstest"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/go-jose/go-jose/v4"
)

// clock is one that tests move.
type clock struct{ since atomic.Int64 }

func (c *clock) add(d time.Duration) { c.since.Add(int64(d)) }

// drive gives a guard a clock that only the test moves.
func drive(guard *access.Guard) *clock {
	c, begin := new(clock), time.Now()
	guard.SetClock(func() time.Time { return begin.Add(time.Duration(c.since.Load())) })
	return c
}

// Tokens with unknown keys, sent concurrently, cause few fetches of keys.
func TestKeys_Garbage(t *testing.T) {
	issuer, guard := issued(t)
	clock := drive(guard)
	storm := func() {
		var all sync.WaitGroup
		for caller := range 8 {
			all.Go(func() {
				for i := range 50 {
					if got, err := bear(guard, issuer.UnknownKey(fmt.Sprintf("key-%d-%d", caller, i), nil)); got != "refused" {
						t.Errorf("%s (%v)", got, err)
					}
				}
			})
		}
		all.Wait()
	}
	storm()
	if asked := issuer.Asked(); asked > access.AskBurst {
		t.Errorf("400 tokens of unknown keys made it ask %d times", asked)
	}
	asked := issuer.Asked()
	for range 5 {
		clock.add(access.AskEvery)
		storm()
	}
	if more := issuer.Asked() - asked; more < 1 || more > 5 {
		t.Errorf("in a minute it asked %d times more", more)
	}
	if got, err := bear(guard, issuer.Token(nil)); got != "oidc:ada" {
		t.Errorf("after the storm: %s (%v)", got, err)
	}
}

// Wrong signatures by a known key cause few fetches of keys.
func TestKeys_WrongSignature(t *testing.T) {
	issuer, guard := issued(t)
	for range 10 {
		if got, err := bear(guard, issuer.Forged(nil)); got != "refused" {
			t.Fatalf("%s (%v)", got, err)
		}
	}
	if asked := issuer.Asked(); asked > access.AskBurst {
		t.Errorf("it asked %d times", asked)
	}
}

// New keys of the issuer are used.
func TestKeys_Rotation(t *testing.T) {
	issuer, guard := issued(t)
	clock := drive(guard)
	for generation := range 6 {
		token := issuer.Token(claims{"jti": generation})
		if got, err := bear(guard, token); got != "oidc:ada" {
			t.Fatalf("keys of generation %d: %s (%v)", generation, got, err)
		}
		issuer.Rotate()
		clock.add(2 * access.AskEvery)
	}
	if asked := issuer.Asked(); asked != 6 {
		t.Errorf("it asked %d times", asked)
	}
}

// Keys are fetched again when the issuer is back.
func TestKeys_IssuerReturns(t *testing.T) {
	issuer := accesstest.NewIssuer(t)
	guard, log := loggedGuard(t, "server.auth.oidc.issuer="+issuer.URL, "server.auth.oidc.audience="+accesstest.Audience)
	clock := drive(guard)
	issuer.Away(true)
	token := issuer.Token(nil)
	for i := range 20 {
		if got, err := bear(guard, token); got != "away" || !errors.Is(err, access.ErrIssuerUnavailable) {
			t.Fatalf("question %d: %s (%v)", i, got, err)
		}
	}
	if asked := issuer.Asked(); asked != access.AskBurst {
		t.Errorf("while it was away it was asked %d times", asked)
	}
	w := httptest.NewRecorder()
	guard.Only(config.RoleRead, http.NotFoundHandler()).ServeHTTP(w, with("Bearer "+token))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || w.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	issuer.Away(false)
	clock.add(access.AskEvery)
	if got, err := bear(guard, token); got != "oidc:ada" {
		t.Errorf("when it is back: %s (%v)", got, err)
	}
	if text := log.String(); strings.Count(text, "cannot fetch the keys") != access.AskBurst || strings.Contains(text, token[:40]) {
		t.Errorf("logged\n%s", text)
	}
}

// While the issuer is unavailable its last keys are used for an hour.
func TestKeys_IssuerUnavailable(t *testing.T) {
	issuer, guard := issued(t)
	clock := drive(guard)
	token := func() string {
		return issuer.Token(claims{"exp": time.Now().Add(24 * time.Hour).Unix(), "jti": clock.since.Load()})
	}
	if got, err := bear(guard, token()); got != "oidc:ada" {
		t.Fatalf("%s (%v)", got, err)
	}
	issuer.Away(true)
	clock.add(access.KeysFresh)
	if got, err := bear(guard, token()); got != "oidc:ada" || issuer.Asked() != 2 {
		t.Errorf("keys that are not fresh: %s (%v), asked %d times", got, err, issuer.Asked())
	}
	if got, _ := bear(guard, issuer.UnknownKey("unknown", nil)); got != "away" {
		t.Errorf("an unknown key: %s", got)
	}
	clock.add(access.KeysGood - access.KeysFresh)
	if got, err := bear(guard, token()); got != "away" {
		t.Errorf("keys that are too old: %s (%v)", got, err)
	}
	issuer.Away(false)
	clock.add(access.AskEvery)
	if got, err := bear(guard, token()); got != "oidc:ada" {
		t.Errorf("when it is back: %s (%v)", got, err)
	}
}

// hostile is a guard whose issuer answers with anything.
func hostile(t *testing.T, answers func(self string) map[string]http.HandlerFunc) *access.Guard {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for pattern, handler := range answers(server.URL) {
		mux.HandleFunc(pattern, handler)
	}
	return guardOf(t, "server.auth.oidc.issuer="+server.URL, "server.auth.oidc.audience="+accesstest.Audience)
}

const wellKnown = "/.well-known/openid-configuration"

func text(format string, args ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, format, args...) }
}

// Answers of an issuer are bounded.
func TestKeys_BoundedAnswer(t *testing.T) {
	good := accesstest.NewIssuer(t)
	padding := strings.Repeat(" ", 1<<20)
	document := func(self, keys string) http.HandlerFunc {
		return text(`{"issuer":%q,"jwks_uri":%q}`, self, keys)
	}
	var followed atomic.Bool
	for name, answers := range map[string]func(self string) map[string]http.HandlerFunc{
		"no document": func(string) map[string]http.HandlerFunc { return nil },
		"not JSON": func(string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: text("<html>")}
		},
		"a long error": func(string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: text("%s", padding)}
		},
		"another issuer": func(string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: document(good.URL, good.URL+"/keys")}
		},
		"a long document": func(self string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: text(`{"issuer":%q,"jwks_uri":%q%s}`, self, good.URL+"/keys", padding)}
		},
		"no keys": func(self string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: text(`{"issuer":%q}`, self)}
		},
		"keys in the open": func(self string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: document(self, "http://192.0.2.1/keys")}
		},
		"keys in a file": func(self string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: document(self, "file:///etc/passwd")}
		},
		"keys that are moved": func(self string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: document(self, self+"/keys"), "/keys": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, self+"/elsewhere", http.StatusFound)
			}, "/elsewhere": func(http.ResponseWriter, *http.Request) { followed.Store(true) }}
		},
		"too many keys": func(self string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: document(self, self+"/keys"), "/keys": text(`{"keys":[]%s}`, padding)}
		},
		"keys of no use": func(self string) map[string]http.HandlerFunc {
			return map[string]http.HandlerFunc{wellKnown: document(self, self+"/keys"), "/keys": text(`{"keys":[{"kty":"oct","k":"c2VjcmV0"},{"kty":"new"},7]}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			guard := hostile(t, answers)
			got, err := bear(guard, good.Token(nil))
			if got != "away" || len(err.Error()) > 500 || strings.HasPrefix(name, "keys in ") && !strings.Contains(err.Error(), "must begin with https://") && !strings.Contains(err.Error(), "must be a URL with a host") {
				t.Errorf("%s (%.600v)", got, err)
			}
		})
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
}

// A key for encryption, one that is secret and one of an unknown kind stand
// beside the one that signs.
func TestKeys_OtherUses(t *testing.T) {
	good := accesstest.NewIssuer(t)
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	res, err := http.Get(good.URL + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if err := json.NewDecoder(res.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	encrypting := strings.Replace(string(set.Keys[0]), `"use":"sig"`, `"use":"enc"`, 1)
	keys := fmt.Sprintf(`{"keys":[{"kty":"new","kid":"a"},{"kty":"oct","k":"c2VjcmV0","kid":"b"},%s,%s]}`, encrypting, set.Keys[1])
	var self string
	guard := hostile(t, func(url string) map[string]http.HandlerFunc {
		self = url
		return map[string]http.HandlerFunc{wellKnown: text(`{"issuer":%q,"jwks_uri":%q}`, url, url+"/keys"), "/keys": text("%s", keys)}
	})
	for algorithm, want := range map[jose.SignatureAlgorithm]string{jose.ES256: "oidc:ada", jose.RS256: "refused"} {
		if got, err := bear(guard, good.Signed(algorithm, claims{"iss": self})); got != want {
			t.Errorf("%s: %s (%v)", algorithm, got, err)
		}
	}
}

// Concurrent callers cause few fetches from an issuer that hangs.
func TestKeys_IssuerHangs(t *testing.T) {
	var asked atomic.Int64
	end := make(chan struct{})
	guard := hostile(t, func(string) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{wellKnown: func(_ http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			select {
			case <-r.Context().Done():
			case <-end:
			}
		}}
	})
	t.Cleanup(func() { close(end) })
	guard.SetPatience(200 * time.Millisecond)
	token := accesstest.NewIssuer(t).Token(nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := bear(guard, token); got != "away" {
				t.Errorf("%s (%v)", got, err)
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n < 1 || n > access.AskBurst {
		t.Errorf("asked %d times", n)
	}
}

// Callers that leave do not wait for an issuer that hangs. The others get the keys of the
// same fetch.
func TestKeys_CallersLeave(t *testing.T) {
	issuer := accesstest.NewIssuer(t)
	var self string
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	guard := hostile(t, func(url string) map[string]http.HandlerFunc {
		self = url
		return map[string]http.HandlerFunc{wellKnown: func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			select {
			case <-answer:
				text(`{"issuer":%q,"jwks_uri":%q}`, url, issuer.URL+"/keys")(w, r)
			case <-r.Context().Done():
			}
		}}
	})
	request := with("Bearer " + issuer.Token(claims{"iss": self}))
	ctx, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := guard.Identify(request.WithContext(ctx))
		left <- err
	}()
	<-asked
	go func() {
		_, err := guard.Identify(request)
		stayed <- err
	}()
	leave()
	_, err := guard.Identify(request.WithContext(ctx))
	for _, err := range []error{err, <-left} {
		if !errors.Is(err, access.ErrIssuerUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
	}
	close(answer)
	if err := <-stayed; err != nil || len(asked) > 0 {
		t.Errorf("a caller that stayed: %v, asked %d times more", err, len(asked))
	}
}

// An issuer may have a certificate authority of its own.
func TestKeys_OwnAuthority(t *testing.T) {
	good := accesstest.NewIssuer(t)
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	server.Config.ErrorLog = quiet
	mux.HandleFunc(wellKnown, text(`{"issuer":%q,"jwks_uri":%q}`, server.URL, good.URL+"/keys"))
	ca := write(t, "ca.pem", pemOf(server.Certificate()))
	settings := []string{"server.auth.oidc.issuer=" + server.URL, "server.auth.oidc.audience=" + accesstest.Audience}
	token := good.Token(claims{"iss": server.URL})
	if got, err := bear(guardOf(t, settings...), token); got != "away" {
		t.Errorf("an issuer with an unknown CA: %s (%v)", got, err)
	}
	guard := guardOf(t, append(settings, "server.auth.oidc.ca-file="+ca)...)
	if got, err := bear(guard, token); got != "oidc:ada" {
		t.Errorf("%s (%v)", got, err)
	}
}

// Valid tokens are accepted while keys are rotated.
func TestKeys_Concurrent(t *testing.T) {
	issuer, guard := issued(t)
	tokens := make([]string, 40)
	for i := range tokens {
		tokens[i] = issuer.Signed(jose.ES256, claims{"sub": fmt.Sprint("user-", i)})
	}
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			for i := range 200 {
				n := (i*7 + caller) % len(tokens)
				if got, err := bear(guard, tokens[n]); got != fmt.Sprint("oidc:user-", n) {
					t.Errorf("user %d: %s (%v)", n, got, err)
				}
				if i%20 == 0 {
					if err := guard.Reload(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if asked := issuer.Asked(); asked != 1 {
		t.Errorf("it asked %d times", asked)
	}
}
