package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// What a file may not leave out or have twice, a body may not either: it changes nothing, and the
// answer names the place. The same text is an error as a file.
func TestStrict_RuleSet(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5, 6, 7))
	rule := ruleOf("mine-0", 1)
	for body, want := range map[string]string{
		`{"id":"mine"}`:                                       "rules: is required: write []",
		`{"id":"mine","rules":null}`:                          "rules: is required: write []",
		`{"id":"mine","rules":{}}`:                            "rules: must be a list",
		`{"id":"mine","rules":[null]}`:                        "rules[0]: must be an object",
		`{"id":"mine","Rules":[` + rule + `]}`:                "Rules: is not a known field: did you mean rules?",
		`{"id":"mine","rules":[` + rule + `],"rules":[]}`:     "rules: is there twice: in line 1, column",
		`{"id":"mine","rules":[` + rule + "],\n\"rules\":[]}": "rules: is there twice: in line 2, column 7, and first in line 1",
		`{"id":"mine","rules":[{"id":"a","id":"b","bands":[{"capacity":1,"refill":"1h","capacity":2}]}]}`: "rules[0].bands[0].capacity: is there twice",
		`{"id":"mine","rules":[{"id":"a","bands":[null]}]}`:                                               "rules[0].bands[0]: must be an object",
	} {
		for _, c := range [][]string{{http.MethodPut, mine, "If-Match", "*"}, {http.MethodPost, "/v1/validate"}} {
			got := r.send(t, c[0], c[1], body, c[2:]...)
			if shown := fmt.Sprint(locations(t, got)); !strings.Contains(shown, want) {
				t.Errorf("%s %s is answered with %d and %s, want %q", c[0], body, got.status, shown, want)
			}
		}
		if sets, err := filerules.Parse("rules.json", []byte(body)); err == nil {
			t.Errorf("%s is %d rule sets as a file", body, len(sets))
		}
		if set, tag := r.read(t, mine); tag != `"1"` || set.Len() != 3 {
			t.Fatalf("after %s the rule set is at %s with %d rules", body, tag, set.Len())
		}
	}
	got := r.send(t, http.MethodPut, mine, "{\"id\":\"mine\",\n  \"rules\": [}", "If-Match", "*").want(t, http.StatusBadRequest)
	if !strings.Contains(got.body, "line 2, column 13") {
		t.Errorf("a syntax error is answered with %s", got.body)
	}
	// An empty list says that there are none.
	r.send(t, http.MethodPost, "/v1/validate", `{"id":"mine","rules":[]}`).want(t, http.StatusOK)
	r.send(t, http.MethodPut, mine, `{"id":"mine","rules":[]}`, "If-Match", "*").want(t, http.StatusOK)
	if set, tag := r.read(t, mine); tag != `"2"` || set.Len() != 0 {
		t.Errorf("the rule set is at %s with %d rules", tag, set.Len())
	}
}

// locations returns the problems of an answer, or of a validation.
func locations(t *testing.T, got answer) (all []string) {
	t.Helper()
	if got.status == http.StatusOK {
		var found admin.Validation
		do(t, json.Unmarshal([]byte(got.body), &found))
		for _, e := range found.Errors {
			all = append(all, e.Location+": "+e.Message)
		}
		return all
	}
	for _, e := range got.problem(t).Errors {
		all = append(all, e.Location+": "+e.Message)
	}
	return all
}

// The bodies of single rules, overrides and requests are read as strictly.
func TestStrict_OtherBodies(t *testing.T) {
	r := start(t)
	r.create(t, mine, `{"id":"mine","rules":[{"id":"one","limitScope":"USER_ID","bands":[{"label":"day","capacity":5,"refill":"24h"}]}]}`)
	const override = `"ruleId":"one","identity":{"userId":"ada"}`
	for _, c := range [][3]string{
		{mine + "/rules/one", `{"id":"one","bands":[{"label":"day","capacity":9,"refill":"24h"}],"bands":[]}`, "bands: is there twice"},
		{mine + "/rules/one", `{"id":"one","nonsense":1,"bands":[{"label":"day","capacity":9,"refill":"24h"}]}`, "nonsense: is not a known field"},
		{mine + "/overrides", `{"overrides":[{` + override + `,"times":2}],"overrides":[]}`, "overrides: is there twice"},
		{mine + "/overrides", `{"overrides":[{` + override + `,"times":2,"times":3}]}`, "overrides[0].times: is there twice"},
		{mine + "/overrides", `{"overrides":[{` + override + `,"tims":2,"times":3}]}`, "is not a known field: did you mean times?"},
		{mine + "/overrides", `{"overrides":[],"dryRun":true}`, "dryRun: is not a known field"},
	} {
		got := r.send(t, http.MethodPut, c[0], c[1], "If-Match", "*")
		if shown := fmt.Sprint(locations(t, got)); got.status != http.StatusUnprocessableEntity || !strings.Contains(shown, c[2]) {
			t.Errorf("%s is answered with %d and %s, want %q", c[1], got.status, got.body, c[2])
		}
	}
	for _, body := range []string{`{}`, `{"overrides":null}`, `{"overrides":{}}`, `null`} {
		r.send(t, http.MethodPut, mine+"/overrides", body).want(t, http.StatusBadRequest)
	}
	got := r.send(t, http.MethodPost, mine+"/explain", `{"userId":"ada","userId":"eve"}`)
	if got.status/100 != 4 || !strings.Contains(got.body, "is there twice") || strings.Contains(got.body, "eve") {
		t.Errorf("a request with two users is answered with %d: %s", got.status, got.body)
	}
	// What is listed can be sent again.
	r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[{`+override+`,"times":2}]}`).want(t, http.StatusOK)
	listed := r.send(t, http.MethodGet, mine+"/overrides", "").want(t, http.StatusOK).body
	r.send(t, http.MethodPut, mine+"/overrides", listed).want(t, http.StatusOK)
}
