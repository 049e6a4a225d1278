package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// Every change and every refusal is in the audit.
func TestAudit_AllAttempts(t *testing.T) {
	r := start(t)
	as := func(token string) string { return "Bearer " + token }
	steps := []struct {
		method, path, body string
		headers            []string
		want               string
	}{
		{http.MethodPut, mine, setOf("mine", 5), []string{"If-None-Match", "*"}, "token:writer put-rule-set mine  201 changed 0>1 added mine-0"},
		{http.MethodPut, mine, setOf("mine", 6), []string{"If-Match", `"1"`}, "token:writer put-rule-set mine  200 changed 1>2 changed mine-0"},
		{http.MethodPut, mine, setOf("mine", 6), []string{"If-Match", `"2"`}, "token:writer put-rule-set mine  200 unchanged 2>2"},
		{http.MethodPut, mine, setOf("mine", 7), []string{"If-Match", `"1"`}, "token:writer put-rule-set mine  412 refused 1>0"},
		{http.MethodPut, mine, setOf("mine", 7), nil, "token:writer put-rule-set mine  428 failed 0>0"},
		{http.MethodPut, mine, setOf("mine", 0), []string{"If-Match", `"2"`}, "token:writer put-rule-set mine  422 failed 2>0"},
		{http.MethodPut, mine, "{", []string{"If-Match", `"2"`}, "token:writer put-rule-set mine  400 failed 2>0"},
		{http.MethodPut, mine + "?forced=true", setOf("mine", 7), []string{"If-Match", `"2"`}, "token:writer put-rule-set mine  422 failed 0>0"},
		{http.MethodPut, mine + "/rules/new", ruleOf("new", 5), []string{"If-Match", `"2"`, "Authorization", as(tokenOne)}, "token:tenant put-rule mine new 201 changed 2>3 added new"},
		{http.MethodPut, mine + "/rules/new", ruleOf("new", 6), []string{"If-Match", `"3"`}, "token:writer put-rule mine new 200 changed 3>4 changed new"},
		{http.MethodDelete, mine + "/rules/new", "", []string{"If-Match", `"4"`}, "token:writer delete-rule mine new 200 changed 4>5 removed new"},
		{http.MethodDelete, mine + "/rules/new", "", []string{"If-Match", `"5"`}, "token:writer delete-rule mine new 404 failed 5>0"},
		{http.MethodDelete, mine, "", []string{"If-Match", `"5"`}, "token:writer delete-rule-set mine  200 changed 5>6 removed mine-0"},
		{http.MethodPost, mine + "/revisions/1/restore", "", []string{"If-None-Match", "*"}, "token:writer restore-revision mine  201 changed 0>7 added mine-0"},
		{http.MethodPost, mine + "/buckets/reset", `{"rule":"mine-0","all":true}`, nil, "token:writer reset-buckets mine mine-0 204 changed 0>0"},
		{http.MethodPost, mine + "/buckets/reset", `{"rule":"none","all":true}`, nil, "token:writer reset-buckets mine none 404 failed 0>0"},
		{http.MethodPut, yours, setOf("yours", 5), []string{"If-None-Match", "*", "Authorization", as(tokenOne)}, "token:tenant put-rule-set yours  403 refused 0>0"},
		{http.MethodPut, mine, setOf("mine", 5), []string{"If-Match", "*", "Authorization", as(tokenRead)}, "token:reader put-rule-set mine  403 refused 0>0"},
		{http.MethodGet, mine, "", []string{"Authorization", as(tokenCheck)}, "token:service get-rule-set mine  403 refused 0>0"},
		{http.MethodGet, mine, "", []string{"Authorization", as("nobody's")}, "unauthenticated get-rule-set mine  401 refused 0>0"},
		{http.MethodDelete, mine + "/rules/mine-0", "", []string{"Authorization", ""}, "unauthenticated delete-rule mine mine-0 401 refused 0>0"},
		{http.MethodGet, "/v1/rule-sets", "", []string{"Authorization", ""}, "unauthenticated list-rule-sets   401 refused 0>0"},
	}
	for i, s := range steps {
		began := time.Now().Add(-time.Second)
		got := r.send(t, s.method, s.path, s.body, s.headers...)
		// Reads are not in the audit.
		r.send(t, http.MethodGet, "/v1/rule-sets", "").want(t, http.StatusOK)
		r.send(t, http.MethodPost, mine+"/buckets/peek", `{"request":{}}`)
		all := r.records(t)
		if len(all) != i+1 {
			t.Fatalf("%d records after %d steps", len(all), i+1)
		}
		rec := all[i]
		is := fmt.Sprintf("%s %s %s %s %d %s %d>%d", rec.Who, rec.Operation, rec.RuleSet, rec.Rule, rec.Status, rec.Outcome, rec.Before, rec.After)
		var changes []rules.RuleDiff
		if rec.Changes != nil {
			do(t, json.Unmarshal(rec.Changes, &changes))
		}
		for _, c := range changes {
			is += fmt.Sprintf(" %s %s", c.Change, c.Rule)
			if len(c.Fields) == 0 {
				t.Errorf("step %d: the record does not have the changes: %s", i, rec.Changes)
			}
		}
		if is != s.want {
			t.Errorf("step %d: the record is %s\nwant %s", i, is, s.want)
		}
		if rec.From != "127.0.0.1" || rec.Status != got.status || rec.Time.Before(began) || rec.Time.After(time.Now().Add(time.Second)) {
			t.Errorf("step %d answers %d, and the record is %+v", i, got.status, rec)
		}
		if failed := got.status >= 400; failed != (rec.Detail != "") || failed && !strings.HasPrefix(rec.Detail, got.problem(t).Detail) {
			t.Errorf("step %d answers %s, and the record has %q", i, got.body, rec.Detail)
		}
	}
}

// Changes are refused while the audit is broken.
func TestAudit_Broken(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5))
	// Later writes fail.
	do(t, os.Rename(r.auditFile, r.auditFile+".1"))
	do(t, os.Mkdir(r.auditFile, 0o700))
	// The next attempt detects it.
	r.send(t, http.MethodGet, mine, "", "Authorization", "").want(t, http.StatusUnauthorized)
	for _, change := range append(slices.Clone(changes), struct{ method, path, body string }{http.MethodPost, mine + "/buckets/reset", `{}`}) {
		p := r.send(t, change.method, change.path, change.body, "If-Match", "*").want(t, http.StatusServiceUnavailable).problem(t)
		if p.Kind != admin.KindUnavailable || !strings.Contains(p.Detail, "audit") {
			t.Errorf("%s %s: %+v", change.method, change.path, p)
		}
	}
	if set, tag := r.read(t, mine); tag != `"1"` || first(t, set).Bands[0].Capacity != 5 {
		t.Errorf("the rule set is at %s", tag)
	}
	r.explain(t, "mine", `{}`) // reads are permitted

	// The next refusal can be written: it is the last.
	do(t, os.Remove(r.auditFile))
	r.send(t, http.MethodPut, mine, setOf("mine", 6), "If-Match", `"1"`).want(t, http.StatusServiceUnavailable)
	r.send(t, http.MethodPut, mine, setOf("mine", 6), "If-Match", `"1"`).want(t, http.StatusOK)
	all := r.records(t)
	if n := len(all); n != 2 || all[0].Seq != 10 || all[0].Status != http.StatusServiceUnavailable || all[1].After != 2 {
		t.Errorf("the file has %+v", all)
	}
}

// A flood of requests without an identity is rate limited, and only some are recorded.
func TestAudit_Flood(t *testing.T) {
	r := start(t, func(s *settings) { s.rate = 100 })
	answers := map[int]int{}
	for i := range 2_000 {
		answers[r.send(t, http.MethodPut, fmt.Sprint("/v1/rule-sets/", i), setOf("mine", 5), "Authorization", "Bearer wrong").status]++
	}
	// Ten, and the refilled tokens.
	if n := answers[http.StatusUnauthorized]; n < 10 || n > 100 || answers[http.StatusTooManyRequests] != 2_000-n {
		t.Errorf("the statuses are %v", answers)
	}
	if n := len(r.records(t)); n != answers[http.StatusUnauthorized] {
		t.Errorf("%d records of %d refusals", n, answers[http.StatusUnauthorized])
	}
}
