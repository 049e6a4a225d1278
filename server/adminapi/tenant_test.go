package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
)

// No answer shows a tenant that other rule sets exist.
func TestTenant_OtherRuleSets(t *testing.T) {
	r := start(t)
	for _, id := range []string{"aaa-secret", "mine", "zzz-secret"} {
		r.create(t, "/v1/rule-sets/"+id, setOf(id, 5))
	}
	for _, id := range []string{"aaa-secret", "mine"} {
		_, err := r.engine.Check(t.Context(), &fluxgate.Request{RuleSet: id, Path: "/mine", UserID: "someone-secret"})
		do(t, err)
	}
	tenant := []string{"Authorization", "Bearer " + tokenOne}
	asks := []struct {
		method, path, body string
		headers            []string
	}{
		{http.MethodPut, mine, strings.ReplaceAll(setOf("mine", 5), "mine-0", "zzz-secret-0"), []string{"If-Match", `"1"`}},
		{http.MethodPut, mine + "/rules/zzz-secret-0", ruleOf("zzz-secret-0", 5), []string{"If-Match", `"1"`}},
		{http.MethodPost, "/v1/validate", strings.ReplaceAll(setOf("mine", 5), "mine-0", "zzz-secret-0"), nil},
		{http.MethodGet, "/v1/whoami", "", nil},
		{http.MethodGet, "/v1/live", "", nil},
		{http.MethodGet, "/v1/fleet", "", nil},
		{http.MethodGet, "/v1/callers?outcome=allowed", "", nil},
	}
	for _, after := range []string{"", "a", "m", "mine", "n"} {
		for limit := 1; limit < 5; limit++ {
			asks = append(asks, struct {
				method, path, body string
				headers            []string
			}{http.MethodGet, fmt.Sprintf("/v1/rule-sets?limit=%d&after=%s", limit, after), "", nil})
		}
	}
	for _, a := range asks {
		got := r.send(t, a.method, a.path, a.body, append(tenant, a.headers...)...)
		// The tenant's own input is no secret.
		rest := strings.ReplaceAll(got.body, "zzz-secret-0", "")
		if strings.Contains(rest, "secret") {
			t.Errorf("%s %s answers %s", a.method, a.path, got.body)
		}
	}
}

// Invalid ids in paths are not in the audit.
func TestAudit_InvalidIDs(t *testing.T) {
	r := start(t)
	r.send(t, http.MethodGet, "/v1/rule-sets/"+strings.Repeat("%01", 900)+"/rules/"+strings.Repeat("%22", 900), "", "Authorization", "").want(t, http.StatusUnauthorized)
	last := r.lastRecord(t)
	if last.RuleSet != "(not an id)" || last.Rule != "(not an id)" {
		t.Errorf("the audit says %+v", last)
	}
}

// Long requests are rejected.
func TestExplain_TooLong(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5))
	path := "/" + strings.Repeat("a/", 5_000)
	r.send(t, http.MethodPost, mine+"/explain", fmt.Sprintf(`{"path":%q}`, path)).want(t, http.StatusUnprocessableEntity)
	r.send(t, http.MethodPost, mine+"/explain", fmt.Sprintf(`{"userId":%q}`, strings.Repeat("x", 70_000))).want(t, http.StatusRequestEntityTooLarge)
	// Short, but decoded it would fill the memory.
	for _, body := range []string{
		`{"id":"mine","rules":[` + strings.Repeat("{},", 3_000_000) + `{}]}`,
		`{"id":"mine","rules":[` + strings.Repeat("{},", 20_000) + `{}]}`,
	} {
		got := r.send(t, http.MethodPost, "/v1/validate", body)
		if got.status != http.StatusBadRequest && !strings.Contains(got.body, `"valid":false`) || len(got.body) > 4<<10 {
			t.Errorf("answers %d with %d bytes", got.status, len(got.body))
		}
	}
}
