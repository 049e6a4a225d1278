package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// changes has one change of each kind, for a rule set with the rule mine-0.
var changes = []struct{ method, path, body string }{
	{http.MethodPut, mine, setOf("mine", 7)},
	{http.MethodDelete, mine, ""},
	{http.MethodPut, mine + "/rules/more", ruleOf("more", 7)},
	{http.MethodPut, mine + "/rules/mine-0", ruleOf("mine-0", 7)},
	{http.MethodDelete, mine + "/rules/mine-0", ""},
	{http.MethodPost, mine + "/revisions/1/restore", ""},
}

// standing returns an API with a rule set at revision 2.
func standing(t *testing.T) *rig {
	t.Helper()
	r := start(t)
	r.create(t, mine, setOf("mine", 5))
	r.send(t, http.MethodPut, mine, setOf("mine", 6), "If-Match", `"1"`).want(t, http.StatusOK)
	return r
}

// wantStanding checks that the rule set has not changed.
func wantStanding(t *testing.T, r *rig, after string) {
	t.Helper()
	if set, tag := r.read(t, mine); tag != `"2"` || set.Len() != 1 || first(t, set).Bands[0].Capacity != 6 {
		t.Fatalf("after %s it is at %s", after, tag)
	}
}

// A change must name the revision that it is based on.
func TestCondition_Required(t *testing.T) {
	r := standing(t)
	for _, change := range changes {
		for _, c := range []struct {
			name, ifMatch, ifNoneMatch string
			status                     int
		}{
			{"nothing", "", "", http.StatusPreconditionRequired},
			{"both", `"2"`, "*", http.StatusBadRequest},
			{"both stars", "*", "*", http.StatusBadRequest},
			{"a weak tag", `W/"2"`, "", http.StatusBadRequest},
			{"a list", `"2", "3"`, "", http.StatusBadRequest},
			{"no number", `"two"`, "", http.StatusBadRequest},
			{"no quotes", `2`, "", http.StatusBadRequest},
			{"half of the quotes", `"2`, "", http.StatusBadRequest},
			{"an empty tag", `""`, "", http.StatusBadRequest},
			{"zero", `"0"`, "", http.StatusBadRequest},
			{"a negative number", `"-2"`, "", http.StatusBadRequest},
			{"a signed number", `"+2"`, "", http.StatusBadRequest},
			{"a leading zero", `"02"`, "", http.StatusBadRequest},
			{"hexadecimal", `"0x2"`, "", http.StatusBadRequest},
			{"a number that is too large", `"99999999999999999999"`, "", http.StatusBadRequest},
			{"a text that is too long", `"` + strings.Repeat("2", 10_000) + `"`, "", http.StatusBadRequest},
			{"a tag that must not match", "", `"2"`, http.StatusBadRequest},
			{"an old revision", `"1"`, "", http.StatusPreconditionFailed},
			{"the next revision", `"3"`, "", http.StatusPreconditionFailed},
			{"the largest revision", `"9223372036854775807"`, "", http.StatusPreconditionFailed},
			{"no rule set", "", "*", http.StatusPreconditionFailed},
		} {
			var headers []string
			if c.ifMatch != "" {
				headers = append(headers, "If-Match", c.ifMatch)
			}
			if c.ifNoneMatch != "" {
				headers = append(headers, "If-None-Match", c.ifNoneMatch)
			}
			got := r.send(t, change.method, change.path, change.body, headers...)
			what := fmt.Sprintf("%s %s based on %s", change.method, change.path, c.name)
			// Based on a rule set that does not exist, a deletion of a rule is also
			// "not found".
			unseen := c.status == http.StatusPreconditionFailed && change.path == mine+"/rules/mine-0" && change.method == http.MethodDelete && got.status == http.StatusNotFound
			if got.status != c.status && !unseen {
				t.Errorf("%s answers %d, want %d: %s", what, got.status, c.status, got.body)
			}
			if p := got.problem(t); p.Status != got.status || p.Detail == "" {
				t.Errorf("%s: %+v", what, p)
			}
			wantStanding(t, r, what)
		}
	}
}

// A change with If-Match: * is based on the current revision.
func TestCondition_AnyRevision(t *testing.T) {
	r := standing(t)
	r.send(t, http.MethodPut, mine, setOf("mine", 7), "If-Match", "*").want(t, http.StatusOK)
	if set, tag := r.read(t, mine); tag != `"3"` || first(t, set).Bands[0].Capacity != 7 {
		t.Errorf("it is at %s: %+v", tag, first(t, set))
	}
	r.send(t, http.MethodDelete, mine, "", "If-Match", "*").want(t, http.StatusOK)
	for _, change := range changes {
		p := r.send(t, change.method, change.path, change.body, "If-Match", "*").want(t, http.StatusPreconditionFailed).problem(t)
		if p.Kind != admin.KindConflict || !strings.Contains(p.Detail, "does not exist") {
			t.Errorf("%s %s of a deleted rule set: %+v", change.method, change.path, p)
		}
	}
	if _, err := r.rules.Load(t.Context(), "mine"); err == nil {
		t.Error("the rule set exists again")
	}
}

// A conflict has the changes of the other author.
func TestConflict_Changes(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5, 6))
	_, seen := r.read(t, mine)
	r.send(t, http.MethodPut, mine+"?comment=more+for+all", strings.Replace(setOf("mine", 50, 6), `"bands"`, `"priority":3,"bands"`, 1),
		"If-Match", seen, "Authorization", "Bearer "+tokenOne).want(t, http.StatusOK)

	p := r.send(t, http.MethodPut, mine, setOf("mine", 5, 60), "If-Match", seen).want(t, http.StatusPreconditionFailed).problem(t)
	c := p.Conflict
	if p.Kind != admin.KindConflict || c == nil {
		t.Fatalf("the problem is %+v", p)
	}
	if c.RuleSetID != "mine" || c.Base != 1 || c.Current != 2 || c.Author != "token:tenant" || c.Comment != "more for all" || c.At.IsZero() {
		t.Errorf("the conflict is %+v", c)
	}
	if len(c.Changes) != 1 || c.Changes[0].Rule != "mine-0" || c.Changes[0].Change != rules.DiffChanged {
		t.Fatalf("the changes are %+v", c.Changes)
	}
	var fields []string
	for _, f := range c.Changes[0].Fields {
		fields = append(fields, fmt.Sprintf("%s: %s -> %s", f.Path, f.Before, f.After))
	}
	if got := strings.Join(fields, "; "); got != "bands[day].capacity: 5 -> 50; priority: 0 -> 3" {
		t.Errorf("the changes are %s", got)
	}
	if !strings.Contains(p.Detail, "token:tenant") {
		t.Errorf("the detail is %q", p.Detail)
	}
	// Nothing is lost, and the change succeeds based on the current revision.
	if set, _ := r.read(t, mine); first(t, set).Bands[0].Capacity != 50 {
		t.Error("the other change is lost")
	}
	r.send(t, http.MethodPut, mine, setOf("mine", 50, 60), "If-Match", fmt.Sprintf(`"%d"`, c.Current)).want(t, http.StatusOK)
}

// The changes in a conflict are bounded.
func TestConflict_Bounded(t *testing.T) {
	r := start(t)
	many := make([]int, 3_000)
	for i := range many {
		many[i] = i + 1
	}
	r.create(t, mine, setOf("mine", many...))
	got := r.send(t, http.MethodPut, mine, setOf("mine", 1), "If-None-Match", "*").want(t, http.StatusPreconditionFailed)
	if n := len(got.problem(t).Conflict.Changes); n < 100 || len(got.body) > 66<<10 {
		t.Errorf("it has %d rules in %d bytes", n, len(got.body))
	}
}

// A conflict with a deleted rule set is reported as such.
func TestConflict_Deleted(t *testing.T) {
	r := standing(t)
	r.send(t, http.MethodDelete, mine, "", "If-Match", `"2"`).want(t, http.StatusOK)
	c := r.send(t, http.MethodPut, mine, setOf("mine", 7), "If-Match", `"2"`).want(t, http.StatusPreconditionFailed).problem(t).Conflict
	if c.Base != 2 || c.Current != 0 || len(c.Changes) != 1 || c.Changes[0].Change != rules.DiffRemoved {
		t.Errorf("the conflict is %+v", c)
	}
	r.send(t, http.MethodDelete, yours, "", "If-Match", `"2"`).want(t, http.StatusPreconditionFailed)
	r.send(t, http.MethodDelete, yours, "", "If-None-Match", "*").want(t, http.StatusNotFound)
}

// Concurrent operators add a rule each, retry after conflicts, and lose none.
func TestConflict_Concurrent(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5))
	const operators, each = 4, 5
	t.Run("at once", func(t *testing.T) {
		for o := range operators {
			t.Run(fmt.Sprint("operator ", o), func(t *testing.T) {
				t.Parallel()
				for i := range each {
					rule := fmt.Sprintf("by-%d-%d", o, i)
					for {
						_, tag := r.read(t, mine)
						got := r.send(t, http.MethodPut, mine+"/rules/"+rule, ruleOf(rule, 5), "If-Match", tag)
						if got.status == http.StatusCreated {
							break
						}
						got.want(t, http.StatusPreconditionFailed)
					}
				}
			})
		}
	})
	if set, tag := r.read(t, mine); set.Len() != 1+operators*each || tag != fmt.Sprintf(`"%d"`, 1+operators*each) {
		t.Errorf("%d rules at revision %s", set.Len(), tag)
	}
}
