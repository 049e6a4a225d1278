package check_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
)

// guarded is an API behind a guard that knows the tokens all, which is for
// every rule set, some, for api and others, and other, for others.
func guarded(t *testing.T, ruleSet string, limiter fluxgate.Limiter) http.Handler {
	t.Helper()
	auth := config.Auth{}
	for name, sets := range map[string][]string{"all": nil, "some": {"api", "others"}, "other": {"others"}} {
		sum := sha256.Sum256([]byte(name))
		auth.Tokens = append(auth.Tokens, config.Token{Name: name, SHA256: config.Hash(hex.EncodeToString(sum[:])), Roles: []config.Role{config.RoleCheck}, RuleSets: sets})
	}
	guard, err := access.New(&config.Server{Auth: auth}, nil)
	if err != nil {
		t.Fatal(err)
	}
	api, err := check.New(check.Config{Limiter: limiter, Issuer: fluxgate.Must(receipt.NewIssuer(receipt.Config{Secret: []byte(guardedSecret)})), RuleSet: ruleSet})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for pattern, handler := range api.Routes() {
		mux.Handle(pattern, guard.Only(config.RoleCheck, handler))
	}
	return mux
}

// counting is a limiter that allows every request and counts them.
func counting(asked *atomic.Int64) fluxgate.Limiter {
	return broken{func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
		asked.Add(1)
		return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
	}}
}

// A token is limited to its rule sets.
func TestCheck_RuleSetsOfToken(t *testing.T) {
	var asked atomic.Int64
	limiter := counting(&asked)
	const checking, compatible, settle = "/v1/check", "/api/ratelimit/check", "/v1/settle"
	for _, c := range []struct {
		byDefault, path, body string
		all, some, other      int
		says                  string
	}{
		{"api", checking, `{"ruleSet":"api"}`, 200, 200, 403, "ruleSet: "},
		{"api", checking, `{"ruleSet":"others"}`, 200, 200, 200, ""},
		{"api", checking, `{"ruleSet":"more"}`, 200, 403, 403, "ruleSet: "},
		{"api", checking, `{"ruleSet":"API"}`, 200, 403, 403, "ruleSet: "},
		{"api", checking, `{}`, 200, 200, 403, "ruleSet: "},
		{"others", checking, `{"ruleSet":""}`, 200, 200, 200, ""},
		{"", checking, `{}`, 200, 403, 403, "ruleSet: "},
		{"api", checking, `{"ruleSet":"a b"}`, 400, 400, 400, "ruleSet"},
		{"api", compatible, `{"ruleSetId":"api"}`, 200, 200, 403, "ruleSetId: "},
		{"api", compatible, `{}`, 200, 200, 403, "ruleSetId: "},
		{"api", compatible, `{"ruleSetId":"more"}`, 200, 403, 403, "ruleSetId: "},
		{"api", settle, `{"receipt":"abc","actual":0}`, 403, 403, 403, "another secret"},
	} {
		handler := guarded(t, c.byDefault, limiter)
		for token, want := range map[string]int{"all": c.all, "some": c.some, "other": c.other} {
			asked.Store(0)
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			r.Header.Set("Authorization", "Bearer "+token)
			handler.ServeHTTP(w, r)
			if w.Code != want || want != 200 && !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%s with %s asks %s %s: %d %s", token, c.byDefault, c.path, c.body, w.Code, w.Body)
			}
			if want == 403 && (asked.Load() > 0 || w.Header().Get("Content-Type") != "application/problem+json") {
				t.Errorf("%s asks %s %s: decided %d times, %v", token, c.path, c.body, asked.Load(), w.Header())
			}
		}
	}
}

// guardedSecret signs the receipts of guarded.
const guardedSecret = "a secret of the tests"

// settling is a limiter that counts what is settled.
type settling struct{ times *atomic.Int64 }

func (settling) Check(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
	return fluxgate.Decision{}, nil
}

func (settling) Extend(context.Context, *fluxgate.Receipt) error { return nil }

func (s settling) Settle(context.Context, *fluxgate.Receipt, int64) (store.Settlement, error) {
	s.times.Add(1)
	return store.Settlement{Returned: 1}, nil
}

func (s settling) SettleUsage(context.Context, *fluxgate.Receipt, *fluxgate.Usage) (map[string]store.Settlement, error) {
	return nil, nil
}

// A receipt is settled by callers that may check its rule set, and by no
// others, who do not spend it by trying.
func TestSettle_ReceiptOfAnotherRuleSet(t *testing.T) {
	var settled atomic.Int64
	api := guarded(t, "others", settling{&settled})
	issuer := fluxgate.Must(receipt.NewIssuer(receipt.Config{Secret: []byte(guardedSecret)}))
	token := issuer.Issue(&fluxgate.Receipt{Takes: []store.Taken{
		{Key: store.Key{RuleSet: "others", Rule: "r"}, Cost: 1}, {Key: store.Key{RuleSet: "api", Rule: "s"}, Cost: 1},
	}})
	for _, c := range []struct {
		caller string
		want   int
	}{{"other", 403}, {"other", 403}, {"some", 200}, {"some", 409}, {"other", 403}} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/settle", strings.NewReader(`{"receipt":"`+token+`","actual":0}`))
		r.Header.Set("Authorization", "Bearer "+c.caller)
		if api.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s settles it: %d %s, want %d", c.caller, w.Code, w.Body, c.want)
		}
	}
	if settled.Load() != 1 {
		t.Errorf("it was settled %d times", settled.Load())
	}
}
