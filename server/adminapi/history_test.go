package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/audit"
)

// eventful returns an API with a rule set of six revisions: created, changed, deleted,
// created again, and changed twice.
func eventful(t *testing.T) *rig {
	t.Helper()
	r := start(t)
	r.create(t, mine, setOf("mine", 1))
	r.send(t, http.MethodPut, mine, setOf("mine", 2), "If-Match", `"1"`).want(t, http.StatusOK)
	r.send(t, http.MethodDelete, mine, "", "If-Match", `"2"`).want(t, http.StatusOK)
	r.create(t, mine, setOf("mine", 4))
	r.send(t, http.MethodPut, mine, setOf("mine", 4, 5), "If-Match", `"4"`).want(t, http.StatusOK)
	r.send(t, http.MethodPut, mine, setOf("mine", 6, 5), "If-Match", `"5"`).want(t, http.StatusOK)
	return r
}

// A rule set is read at a former revision.
func TestRevision_Read(t *testing.T) {
	r := eventful(t)
	for revision, want := range map[int]string{1: "[1]", 2: "[2]", 3: "gone", 4: "[4]", 5: "[4 5]", 6: "[6 5]"} {
		var got struct {
			rules.Entry
			RuleSet *struct {
				Rules []struct{ Bands []struct{ Capacity int } }
			} `json:"ruleSet"`
		}
		r.send(t, http.MethodGet, fmt.Sprintf("%s/revisions/%d", mine, revision), "").want(t, http.StatusOK).into(t, &got)
		is := "gone"
		if got.RuleSet != nil {
			var capacities []int
			for _, rule := range got.RuleSet.Rules {
				capacities = append(capacities, rule.Bands[0].Capacity)
			}
			is = fmt.Sprint(capacities)
		}
		if is != want || got.Revision != int64(revision) || got.RuleSetID != "mine" || got.Deleted != (want == "gone") || got.Author != "token:writer" {
			t.Errorf("revision %d is %s, want %s: %+v", revision, is, want, got.Entry)
		}
	}
	r.send(t, http.MethodGet, mine+"/revisions/7", "").want(t, http.StatusNotFound)
	r.send(t, http.MethodGet, yours+"/revisions/1", "").want(t, http.StatusNotFound)
	r.send(t, http.MethodGet, yours+"/revisions", "").want(t, http.StatusNotFound)
}

// Revisions are compared.
func TestRevision_Diff(t *testing.T) {
	r := eventful(t)
	for query, want := range map[string]string{
		"":                              "5 to 6: mine-0 changed",
		"?to=5":                         "4 to 5: mine-1 added",
		"?to=4":                         "3 to 4: mine-0 added",
		"?to=3":                         "2 to 3: mine-0 removed",
		"?to=1":                         "0 to 1: mine-0 added",
		"?from=1":                       "1 to 6: mine-0 changed, mine-1 added",
		"?from=1&to=2":                  "1 to 2: mine-0 changed",
		"?from=5&to=4":                  "5 to 4: mine-1 removed",
		"?from=3&to=6":                  "3 to 6: mine-0 added, mine-1 added",
		"?from=2&to=3":                  "2 to 3: mine-0 removed",
		"?from=6&to=6":                  "6 to 6:",
		"?to=7":                         "404",
		"?from=7":                       "404",
		"?from=1&to=7":                  "404",
		"?to=9223372036854775807":       "422",
		"?from=9223372036854775807":     "404",
		"?to=-1":                        "422",
		"?from=first":                   "422",
		"?from=1&to=2&to=3&other=thing": "422",
	} {
		got := r.send(t, http.MethodGet, mine+"/diff"+query, "")
		is := fmt.Sprint(got.status)
		if got.status == http.StatusOK {
			var d admin.Diff
			got.into(t, &d)
			var all []string
			for _, c := range d.Changes {
				all = append(all, fmt.Sprintf(" %s %s", c.Rule, c.Change))
			}
			is = fmt.Sprintf("%d to %d:%s", d.From, d.To, strings.Join(all, ","))
		}
		if is != want {
			t.Errorf("diff%s is %s, want %s", query, is, want)
		}
	}
	r.send(t, http.MethodGet, yours+"/diff", "").want(t, http.StatusNotFound)
}

// A revision is restored as a new revision.
func TestRevision_Restore(t *testing.T) {
	r := eventful(t)
	r.send(t, http.MethodPost, mine+"/revisions/3/restore", "", "If-Match", `"6"`).want(t, http.StatusNotFound)
	r.send(t, http.MethodPost, mine+"/revisions/9/restore", "", "If-Match", `"6"`).want(t, http.StatusNotFound)
	r.send(t, http.MethodPost, mine+"/revisions/5/restore", "", "If-Match", `"5"`).want(t, http.StatusPreconditionFailed)
	if got := r.send(t, http.MethodPost, mine+"/revisions/6/restore", "", "If-Match", `"6"`).want(t, http.StatusOK); got.header.Get("ETag") != `"6"` {
		t.Errorf("restoring the current revision makes revision %s", got.header.Get("ETag"))
	}
	if last := r.lastRecord(t); last.Outcome != audit.Unchanged {
		t.Errorf("the audit has %+v", last)
	}
	r.send(t, http.MethodPost, mine+"/revisions/5/restore?comment=back+then+all+was+well", "", "If-Match", `"6"`).want(t, http.StatusOK)
	v, err := r.rules.Load(t.Context(), "mine")
	do(t, err)
	if v.Revision != 7 || v.RuleSet.Len() != 2 || first(t, v.RuleSet).Bands[0].Capacity != 4 || v.Comment != "back then all was well" {
		t.Errorf("restored as revision %d, %q", v.Revision, v.Comment)
	}
	before, err := r.rules.Version(t.Context(), "mine", 5)
	do(t, err)
	if len(rules.Diff(before.RuleSet, v.RuleSet)) != 0 {
		t.Error("the restored rule set differs")
	}
}
