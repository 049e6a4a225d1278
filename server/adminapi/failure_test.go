package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/audit"
)

// A panic after a change was made is in the audit.
func TestAudit_FailureAfterChange(t *testing.T) {
	r := start(t, func(s *settings) { s.changed = func() { panic("a bug") } })
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.URL+mine, strings.NewReader(setOf("mine", 5)))
	do(t, err)
	q.Header.Set("Authorization", "Bearer "+tokenWrite)
	q.Header.Set("If-None-Match", "*")
	if response, err := r.Client().Do(q); err == nil {
		t.Errorf("it is answered with %s", response.Status)
		do(t, response.Body.Close())
	}
	all := r.records(t)
	if len(all) != 1 || all[0].Outcome != audit.Failed || all[0].Status != http.StatusInternalServerError || all[0].After != 1 || !strings.Contains(all[0].Detail, "may have been made") {
		t.Errorf("the audit has %+v", all)
	}
}

// A change based on an unknown revision is a conflict.
func TestConflict_UnknownBase(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5))
	for _, change := range [][3]string{
		{http.MethodDelete, mine + "/rules/mine-0", ""}, {http.MethodPut, mine + "/rules/new", ruleOf("new", 5)}, {http.MethodPut, mine + "/rules/mine-0", ruleOf("mine-0", 6)},
		{http.MethodPut, mine, setOf("mine", 6)}, {http.MethodDelete, mine, ""}, {http.MethodPost, mine + "/revisions/1/restore", ""},
	} {
		p := r.send(t, change[0], change[1], change[2], "If-Match", `"77"`).want(t, http.StatusPreconditionFailed).problem(t)
		if p.Conflict == nil || p.Conflict.Base != 77 || p.Conflict.Current != 1 {
			t.Errorf("%s %s: %+v", change[0], change[1], p)
		}
	}
}
