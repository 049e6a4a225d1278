package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// A rule is created, read, replaced and deleted.
func TestRule_Lifecycle(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5))
	const one = mine + "/rules/extra"
	r.send(t, http.MethodGet, one, "").want(t, http.StatusNotFound)

	created := r.send(t, http.MethodPut, one+"?comment=one+more", ruleOf("extra", 7), "If-Match", `"1"`).want(t, http.StatusCreated)
	var entry rules.Entry
	created.into(t, &entry)
	if entry.RuleSetID != "mine" || entry.Revision != 2 || entry.Comment != "one more" || created.header.Get("ETag") != `"2"` {
		t.Errorf("created as %s %+v", created.header.Get("ETag"), entry)
	}
	capacity := func(want int) {
		t.Helper()
		got := r.send(t, http.MethodGet, one, "").want(t, http.StatusOK)
		var rule struct {
			ID, RuleSetID string
			Bands         []struct{ Capacity int }
		}
		got.into(t, &rule)
		if rule.ID != "extra" || rule.RuleSetID != "mine" || rule.Bands[0].Capacity != want {
			t.Errorf("the rule is %s, want a capacity of %d", got.body, want)
		}
		if _, tag := r.read(t, mine); got.header.Get("ETag") != tag {
			t.Errorf("the rule is at %s, the rule set at %s", got.header.Get("ETag"), tag)
		}
	}
	capacity(7)
	r.send(t, http.MethodPut, one, ruleOf("extra", 8), "If-Match", `"2"`).want(t, http.StatusOK)
	capacity(8)
	if got := r.send(t, http.MethodPut, one, ruleOf("extra", 8), "If-Match", `"3"`).want(t, http.StatusOK); got.header.Get("ETag") != `"3"` {
		t.Errorf("the same rule again makes revision %s", got.header.Get("ETag"))
	}
	r.send(t, http.MethodDelete, one, "", "If-Match", `"3"`).want(t, http.StatusOK)
	r.send(t, http.MethodGet, one, "").want(t, http.StatusNotFound)
	r.send(t, http.MethodPut, one, ruleOf("extra", 9), "If-Match", `"4"`).want(t, http.StatusCreated)
	capacity(9)
	if set, _ := r.read(t, mine); set.Len() != 2 {
		t.Errorf("there are %d rules", set.Len())
	}
}

// The first rule creates its rule set.
func TestRule_First(t *testing.T) {
	r := start(t)
	r.send(t, http.MethodPut, mine+"/rules/a", ruleOf("a", 5), "If-None-Match", "*").want(t, http.StatusCreated)
	r.send(t, http.MethodPut, yours+"/rules/b", ruleOf("b", 5), "If-None-Match", "*").want(t, http.StatusCreated)
	r.send(t, http.MethodDelete, mine+"/rules/a", "", "If-Match", `"1"`).want(t, http.StatusOK)
	if set, tag := r.read(t, mine); set.Len() != 0 || tag != `"2"` {
		t.Errorf("without its last rule it has %d, at %s", set.Len(), tag)
	}
	if set, tag := r.read(t, yours); set.Len() != 1 || tag != `"1"` {
		t.Errorf("%d rules at %s", set.Len(), tag)
	}
}

// An invalid rule is rejected with the paths of its problems.
func TestRule_Invalid(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5, 6, 7))
	r.create(t, yours, setOf("yours", 5))
	const added, one = mine + "/rules/new", mine + "/rules/mine-1"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		places                   string
	}{
		{"another id", http.MethodPut, one, ruleOf("mine-2", 5), http.StatusUnprocessableEntity, "body.id"},
		{"no id", http.MethodPut, one, `{"bands":[{"capacity":1,"refill":"1s"}]}`, http.StatusUnprocessableEntity, "body.id"},
		{"a new rule without an id", http.MethodPut, added, `{"bands":[{"capacity":1,"refill":"1s"}]}`, http.StatusUnprocessableEntity, "body.id"},
		{"a capacity of 0", http.MethodPut, added, ruleOf("new", 0), http.StatusUnprocessableEntity, "body.bands[0].capacity"},
		{"a capacity of 0 of an existing rule", http.MethodPut, one, ruleOf("mine-1", 0), http.StatusUnprocessableEntity, "body.bands[0].capacity"},
		{
			"several things", http.MethodPut, mine + "/rules/new", `{"id":"new","limitScope":"NOBODY","bands":[{"capacity":1,"refill":"1s"},{"capacity":-4,"refill":"1s"}],"methods":["G T"]}`,
			http.StatusUnprocessableEntity, "body.methods[0] body.bands[1].capacity body.limitScope",
		},
		{"another rule set", http.MethodPut, added, `{"id":"new","ruleSetId":"yours","bands":[{"capacity":1,"refill":"1s"}]}`, http.StatusUnprocessableEntity, "body.ruleSetId"},
		{"an unknown field", http.MethodPut, added, `{"id":"new","capacity":5}`, http.StatusUnprocessableEntity, "body.capacity body.bands"},
		{"a field of another type", http.MethodPut, added, `{"id":"new","bands":7}`, http.StatusUnprocessableEntity, "body.bands"},
		{"a list", http.MethodPut, added, `[` + ruleOf("new", 5) + `]`, http.StatusBadRequest, ""},
		{"nothing", http.MethodPut, added, `null`, http.StatusBadRequest, ""},
		{"a truncated rule", http.MethodPut, one, ruleOf("mine-1", 5)[:20], http.StatusBadRequest, ""},
		{"two rules", http.MethodPut, added, ruleOf("new", 5) + ruleOf("newer", 5), http.StatusBadRequest, ""},
	} {
		p := r.send(t, c.method, c.path, c.body, "If-Match", "*").want(t, c.status).problem(t)
		var places []string
		for _, e := range p.Errors {
			places = append(places, e.Location)
			if e.Message == "" {
				t.Errorf("%s: the problem at %s has no message", c.name, e.Location)
			}
		}
		if got := strings.Join(places, " "); got != c.places {
			t.Errorf("%s: the paths are %q, want %q", c.name, got, c.places)
		}
	}
	r.send(t, http.MethodDelete, mine+"/rules/none", "", "If-Match", "*").want(t, http.StatusNotFound)
	r.send(t, http.MethodGet, mine+"/rules/none", "").want(t, http.StatusNotFound)
	r.send(t, http.MethodGet, "/v1/rule-sets/none/rules/none", "").want(t, http.StatusNotFound)
	r.send(t, http.MethodGet, "/v1/rule-sets/none/rules", "").want(t, http.StatusNotFound)
	for _, path := range []string{mine, yours} {
		if _, tag := r.read(t, path); tag != `"1"` {
			t.Errorf("%s is at %s", path, tag)
		}
	}
}

// A rule set is validated without being saved.
func TestRuleSet_Validate(t *testing.T) {
	r := start(t)
	validate := func(body string) (v admin.Validation) {
		t.Helper()
		r.send(t, http.MethodPost, "/v1/validate", body, "Authorization", "Bearer "+tokenRead).want(t, http.StatusOK).into(t, &v)
		return v
	}
	if v := validate(setOf("mine", 5, 6)); !v.Valid || v.Rules != 2 || len(v.Errors) != 0 {
		t.Errorf("a valid one is %+v", v)
	}
	warned := validate(`{"id":"mine","rules":[{"id":"a","action":"deny","priority":1},{"id":"b","action":"deny","method":"GETT"}]}`)
	if got := warned.Warnings; !warned.Valid || len(got) != 2 || got[0].Kind != rules.WarnUnreachable || got[0].Rule != "b" || got[0].Location != "body.rules[1]" ||
		got[1].Kind != rules.WarnMethod || got[1].Location != "body.rules[1].methods[0]" || !strings.Contains(got[1].Message, `"GETT"`) {
		t.Errorf("got %+v", warned)
	}
	v := validate(strings.Replace(setOf("mine", 5, 0, 7), `"mine-2"`, `"mine 2"`, 1))
	var places []string
	for _, e := range v.Errors {
		places = append(places, e.Location)
	}
	if v.Valid || fmt.Sprint(places) != "[body.rules[1].bands[0].capacity body.rules[2].id]" {
		t.Errorf("an invalid one is %+v", v)
	}
	for _, bad := range []string{"not JSON", `{"id":"mine","rules":[`, `[]`, `7`, setOf("mine", 5) + "x"} {
		p := r.send(t, http.MethodPost, "/v1/validate", bad).want(t, http.StatusBadRequest).problem(t)
		if p.Kind != admin.KindValidation || p.Detail == "" {
			t.Errorf("%s: %+v", bad, p)
		}
		r.send(t, http.MethodPut, mine, bad, "If-None-Match", "*").want(t, http.StatusBadRequest)
	}
	if ids, err := r.rules.List(t.Context(), "", 0); err != nil || len(ids) != 0 {
		t.Errorf("there are %d rule sets (%v)", len(ids), err)
	}
	if p := r.send(t, http.MethodPut, mine, setOf("yours", 5), "If-None-Match", "*").want(t, http.StatusUnprocessableEntity).problem(t); p.Errors[0].Location != "body.id" {
		t.Errorf("another id than in the path: %+v", p)
	}
}
