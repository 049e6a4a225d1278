package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/access/accesstest"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

// operation is one operation of the document.
type operation struct {
	method, path string
	ID           string                `json:"operationId"`
	Security     []map[string][]string `json:"security"`
	RequestBody  json.RawMessage       `json:"requestBody"`
}

// operations returns those of the served document.
func operations(t *testing.T, r *rig) []operation {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]operation `json:"paths"`
	}
	r.send(t, http.MethodGet, "/openapi.json", "").want(t, http.StatusOK).into(t, &doc)
	var all []operation
	for path, item := range doc.Paths {
		for method, op := range item {
			op.method, op.path = strings.ToUpper(method), path
			all = append(all, op)
		}
	}
	if len(all) < 20 {
		t.Fatalf("the document has %d operations", len(all))
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// roles returns the roles that may call an operation, which are the same in every security scheme.
func (op *operation) roles(t *testing.T) []config.Role {
	t.Helper()
	found := map[string][]config.Role{}
	for _, way := range op.Security {
		if len(way) != 1 {
			t.Fatalf("%s: %v is not one scheme", op.ID, way)
		}
		for scheme, roles := range way {
			if len(roles) != 1 || !slices.Contains(config.Roles, config.Role(roles[0])) {
				t.Fatalf("%s needs the roles %v, want one", op.ID, op.Security)
			}
			found[scheme] = append(found[scheme], config.Role(roles[0]))
		}
	}
	if len(found) != 2 || !slices.Equal(found["bearer"], found["certificate"]) {
		t.Fatalf("%s needs the roles %v, want the same in all schemes", op.ID, op.Security)
	}
	support := []string{"whoami", "callers", "list-overrides", "get-override", "put-overrides", "delete-override"}
	if got := slices.Contains(found["bearer"], config.RoleSupport); got != slices.Contains(support, op.ID) {
		t.Errorf("%s may be called with the role support: %v", op.ID, got)
	}
	return found["bearer"]
}

// identity is a caller of the test.
type identity struct {
	token    string // may be empty
	known    bool
	roles    []config.Role // with included roles
	ruleSets []string      // nil means all
}

// verdict returns the expected status of an operation that needs one of some roles on a rule set,
// 0 for any.
func (s *identity) verdict(roles []config.Role, ruleSet string) int {
	switch {
	case !s.known:
		return http.StatusUnauthorized
	case !slices.ContainsFunc(roles, func(r config.Role) bool { return slices.Contains(s.roles, r) }), ruleSet != "" && s.ruleSets != nil && !slices.Contains(s.ruleSets, ruleSet):
		return http.StatusForbidden
	}
	return 0 // permitted
}

// Each operation is permitted to exactly the callers with the role in its description.
func TestAccess_Roles(t *testing.T) {
	issuer := accesstest.NewIssuer(t)
	withIssuer := func(s *settings) {
		s.server.Auth.OIDC = config.OIDC{Issuer: config.URI(issuer.URL), Audience: accesstest.Audience, NameClaim: "sub", RolesClaim: "roles", RuleSetsClaim: ""}
	}
	check, read := []config.Role{config.RoleCheck}, []config.Role{config.RoleRead}
	write := []config.Role{config.RoleRead, config.RoleWrite, config.RoleSupport}
	claims := map[string]any{"roles": []string{"read", "write"}}
	people := map[string]identity{
		"anonymous":                      {},
		"check":                          {tokenCheck, true, check, nil},
		"read":                           {tokenRead, true, read, nil},
		"write":                          {tokenWrite, true, write, nil},
		"write on one rule set":          {tokenOne, true, write, []string{"mine"}},
		"wrong token":                    {token: "an unknown token"},
		"OIDC, check":                    {issuer.Token(map[string]any{"roles": []string{"check"}}), true, check, nil},
		"OIDC, read":                     {issuer.Token(map[string]any{"roles": []string{"read"}}), true, read, nil},
		"OIDC, write":                    {issuer.Token(map[string]any{"roles": []string{"write"}}), true, write, nil},
		"OIDC, support":                  {issuer.Token(map[string]any{"roles": []string{"support"}}), true, []config.Role{config.RoleSupport}, nil},
		"OIDC, no role":                  {issuer.Token(nil), true, nil, nil},
		"OIDC, expired":                  {token: issuer.Expired(claims)},
		"OIDC, invalid signature":        {token: issuer.Forged(claims)},
		"OIDC, unsigned":                 {token: issuer.Unsigned(claims)},
		"OIDC, signed with a public key": {token: issuer.Symmetric(claims)[0]},
		"OIDC, another audience":         {token: issuer.Token(map[string]any{"roles": []string{"write"}, "aud": "others"})},
	}
	asked := 0
	for _, op := range operations(t, start(t, withIssuer)) {
		r := start(t, withIssuer) // an audit has at most a hundred attempts of unauthenticated callers in a minute
		roles := op.roles(t)
		for name, who := range people {
			for _, ruleSet := range []string{"mine", "yours"} {
				path := strings.NewReplacer("{ruleSet}", ruleSet, "{rule}", "rule", "{revision}", "1").Replace(op.path)
				about := ruleSet
				if !strings.Contains(op.path, "{ruleSet}") {
					about = ""
				}
				body := ""
				if op.RequestBody != nil {
					body = "{}"
				}
				header := []string{"Authorization", "Bearer " + who.token}
				if who.token == "" {
					header = []string{"Authorization", ""}
				}
				before := len(r.records(t))
				got := r.send(t, op.method, path, body, header...)
				want := who.verdict(roles, about)
				asked++
				switch {
				case want != 0 && got.status != want:
					t.Errorf("%s by %s on %s answers %d, want %d: %s", op.ID, name, ruleSet, got.status, want, got.body)
				case want == 0 && (got.status == http.StatusUnauthorized || got.status == http.StatusForbidden || got.status >= 500):
					t.Errorf("%s by %s on %s answers %d: %s", op.ID, name, ruleSet, got.status, got.body)
				case want == http.StatusUnauthorized && !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer"):
					t.Errorf("%s by %s: 401 without WWW-Authenticate", op.ID, name)
				}
				if op.ID == "whoami" && who.token == "" {
					if len(r.records(t)) != before {
						t.Error("the audit has the question whether a token is needed")
					}
				} else if want != 0 {
					wantAudited(t, r, op.ID, about, want)
				}
			}
		}
		for _, id := range []string{"mine", "yours"} {
			if history, err := r.rules.History(t.Context(), id, 0, 0); err != nil || len(history) != 0 {
				t.Errorf("%d revisions of %s were made by empty requests, error %v", len(history), id, err)
			}
		}
	}
	t.Logf("%d requests by %d callers", asked, len(people))
}

// wantAudited checks that the last record is about a refused attempt.
func wantAudited(t *testing.T, r *rig, operation, ruleSet string, status int) {
	t.Helper()
	last := r.lastRecord(t)
	got := fmt.Sprint(last.Operation, last.RuleSet, last.Status, last.Outcome)
	if want := fmt.Sprint(operation, ruleSet, status, audit.Refused); got != want {
		t.Errorf("the audit has %s, want %s", got, want)
	}
}
