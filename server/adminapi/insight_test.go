package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
)

// The identities of callers are shown to the role identities beside read, on its rule
// sets, and to no other.
func TestCallers_Roles(t *testing.T) {
	r := start(t, func(s *settings) {
		s.server.Auth.Tokens = []config.Token{
			token("admin", tokenWrite, nil, config.RoleWrite), token("both", "both", nil, config.RoleRead, config.RoleIdentities),
			token("alone", "alone", nil, config.RoleIdentities), token("service", tokenCheck, nil, config.RoleCheck),
			token("mine", "mine", []string{"mine"}, config.RoleRead, config.RoleIdentities),
		}
	})
	for _, id := range []string{"mine", "yours"} {
		r.create(t, "/v1/rule-sets/"+id, fmt.Sprintf(`{"id":%q,"rules":[{"id":"r","limitScope":"USER_ID","bands":[{"capacity":1,"refill":"1h"}]}]}`, id))
		for range 3 {
			_, err := r.engine.Check(t.Context(), &fluxgate.Request{RuleSet: id, UserID: "caller-of-" + id})
			do(t, err)
		}
	}
	for name, c := range map[string]struct {
		status, callers int
		sees            string // of the identities
	}{
		tokenWrite: {http.StatusOK, 2, ""},
		"both":     {http.StatusOK, 2, "user caller-of-mine user caller-of-yours"},
		"mine":     {http.StatusOK, 1, "user caller-of-mine"},
		"alone":    {http.StatusForbidden, 0, ""},
		tokenCheck: {http.StatusForbidden, 0, ""},
	} {
		got := r.send(t, http.MethodGet, "/v1/callers", "", "Authorization", "Bearer "+name).want(t, c.status)
		if c.status != http.StatusOK {
			continue
		}
		var callers admin.Callers
		got.into(t, &callers)
		if len(callers.Callers) != c.callers || c.sees == "" && strings.Contains(got.body, `"identity"`) {
			t.Errorf("%s gets %s", name, got.body)
		}
		for _, caller := range callers.Callers {
			if c.sees != "" && !strings.Contains(c.sees, caller.Identity) || caller.Count != 2 {
				t.Errorf("%s gets %+v", name, caller)
			}
		}
	}
}

// Impossible queries are refused, and other rule sets are those of others.
func TestInsight_Queries(t *testing.T) {
	r := start(t)
	for path, want := range map[string]int{
		"/v1/live":                                         http.StatusOK,
		"/v1/live?ruleSet=a":                               http.StatusOK,
		"/v1/live?range=1h":                                http.StatusUnprocessableEntity,
		"/v1/live?ruleSet=%3Cscript%3E":                    http.StatusUnprocessableEntity,
		"/v1/live?limit=0":                                 http.StatusUnprocessableEntity,
		"/v1/callers?outcome=denied":                       http.StatusUnprocessableEntity,
		"/v1/callers?rule=b":                               http.StatusUnprocessableEntity,
		"/v1/callers?limit=101":                            http.StatusUnprocessableEntity,
		"/v1/callers?ruleSet=a&rule=%28request%29&limit=1": http.StatusOK,
		"/v1/fleet?ruleSet=a":                              http.StatusUnprocessableEntity,
	} {
		got := r.send(t, http.MethodGet, path, "")
		if got.status != want {
			t.Errorf("%s answers %d, want %d: %s", path, got.status, want, got.body)
		}
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s has the headers %v: a browser may keep the answer", path, got.header)
		}
	}
	for _, path := range []string{"/v1/live?ruleSet=yours", "/v1/callers?ruleSet=yours"} {
		r.send(t, http.MethodGet, path, "", "Authorization", "Bearer "+tokenOne).want(t, http.StatusForbidden)
		if last := r.lastRecord(t); last.RuleSet != "yours" || last.Who != "token:tenant" {
			t.Errorf("the audit says %+v", last)
		}
	}
	r.send(t, http.MethodGet, "/v1/live?ruleSet=mine", "", "Authorization", "Bearer "+tokenOne).want(t, http.StatusOK)
}
