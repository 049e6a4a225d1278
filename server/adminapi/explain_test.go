package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/store"
)

// explain returns the explanation of a request.
func (r *rig) explain(t testing.TB, ruleSet, request string) *admin.Explanation {
	t.Helper()
	out := new(admin.Explanation)
	r.send(t, http.MethodPost, "/v1/rule-sets/"+ruleSet+"/explain", request).want(t, http.StatusOK).into(t, out)
	return out
}

// peek returns what the caller of a request has left.
func (r *rig) peek(t testing.TB, ruleSet, body string) []admin.Bucket {
	t.Helper()
	var out struct {
		Buckets []admin.Bucket `json:"buckets"`
	}
	r.send(t, http.MethodPost, "/v1/rule-sets/"+ruleSet+"/buckets/peek", body).want(t, http.StatusOK).into(t, &out)
	return out.Buckets
}

// check decides a request and takes tokens.
func (r *rig) check(t testing.TB, req *fluxgate.Request) fluxgate.Decision {
	t.Helper()
	d, err := r.engine.Check(t.Context(), req)
	do(t, err)
	return d
}

// scene is a rule set with every kind of rule.
const scene = `{"id":"scene","rules":[
	{"id":"blocked","priority":9,"action":"deny","path":"/blocked"},
	{"id":"per-key","priority":5,"limitScope":"API_KEY","onMissingIdentity":"refuse","path":"/keys","bands":[{"label":"day","capacity":4,"refill":"24h"}]},
	{"id":"per-user","priority":4,"group":"people","limitScope":"USER_ID","bands":[{"label":"day","capacity":5,"refill":"24h"},{"label":"month","capacity":50,"refill":"720h"}]},
	{"id":"second","priority":3,"group":"people","bands":[{"capacity":5,"refill":"24h"}]},
	{"id":"off","priority":3,"enabled":false,"bands":[{"capacity":5,"refill":"24h"}]},
	{"id":"planned","priority":2,"mode":"shadow","when":{"headers":{"X-Plan":["gold"]}},"bands":[{"label":"day","capacity":1,"refill":"24h"}]},
	{"id":"everyone","bands":[{"label":"day","capacity":100,"refill":"24h"}]}
]}`

func onScene(t *testing.T) *rig {
	t.Helper()
	r := start(t)
	r.create(t, "/v1/rule-sets/scene", scene)
	return r
}

// line formats a verdict on one line.
func line(v *admin.Verdict) string {
	return strings.TrimSpace(fmt.Sprintf("%s %t %s %s %s %t %d %s %s by %v without %v", v.Rule, v.Applies, v.Why, v.Detail, v.Action, v.Shadow, v.Priority, v.Group, v.Scope, v.Identity, v.Missing))
}

func wantLines(t *testing.T, rules []admin.Verdict, want ...string) {
	t.Helper()
	var got []string
	for i := range rules {
		got = append(got, strings.Join(strings.Fields(line(&rules[i])), " "))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the verdicts are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An explanation has the reasons and the decision.
func TestExplain_Decision(t *testing.T) {
	r := onScene(t)
	const request = `{"userId":"ann","path":"/","headers":{"x-plan":["gold"]},"cost":2}`
	got := r.explain(t, "scene", request)
	wantLines(t, got.Rules,
		"blocked false path deny false 9 by [] without []",
		"per-key false path false 5 API_KEY by [] without [apiKey]",
		"per-user true false 4 people USER_ID by [userId] without []",
		"off false disabled false 3 GLOBAL by [] without []",
		"second false group per-user false 3 people GLOBAL by [] without []",
		"planned true true 2 GLOBAL by [] without []",
		"everyone true false 0 GLOBAL by [] without []",
	)
	d := got.Decision
	if got.RuleSet != "scene" || !d.Allowed || d.Reason != fluxgate.ReasonOK || d.Source != "store" || d.Receipt != "" || d.TimeMs == 0 {
		t.Errorf("the decision is %+v", d)
	}
	var bands []string
	for _, b := range d.Bands {
		bands = append(bands, fmt.Sprintf("%s.%s %t %s %d/%d", b.Rule, b.Label, b.Shadow, b.Status, b.Remaining, b.Limit))
	}
	if want := "per-user.day false ok 5/5, per-user.month false ok 50/50, planned.day true too costly 1/1, everyone.day false ok 100/100"; strings.Join(bands, ", ") != want {
		t.Errorf("the bands are %s", strings.Join(bands, ", "))
	}
	for _, v := range got.Rules {
		limits := v.Action == "" && v.Why != "disabled" && v.Rule != "per-key"
		if (v.Key != "") != limits || limits && len(v.Key) != 48 {
			t.Errorf("rule %s has the key %q", v.Rule, v.Key)
		}
	}
	// Nothing was taken, even by several explanations.
	if again := r.explain(t, "scene", request); again.Decision.Remaining != 5 {
		t.Errorf("after an explanation %d are left", again.Decision.Remaining)
	}

	var applying admin.Explanation
	r.send(t, http.MethodPost, "/v1/rule-sets/scene/explain?applying=true", request).want(t, http.StatusOK).into(t, &applying)
	wantLines(t, applying.Rules,
		"per-user true false 4 people USER_ID by [userId] without []",
		"planned true true 2 GLOBAL by [] without []",
		"everyone true false 0 GLOBAL by [] without []",
	)
}

// A request may have a descriptor, which rules match and count by.
func TestExplain_Descriptor(t *testing.T) {
	r := start(t)
	r.create(t, "/v1/rule-sets/envoy", `{"id":"envoy","rules":[
		{"id":"login","when":{"descriptor":[{"key":"route","value":"login"},{"key":"client","except":["test*"]}]},
		 "limitScope":"COMPOSITE","compositeKeyFields":["descriptor:client"],"bands":[{"label":"day","capacity":5,"refill":"24h"}]},
		{"id":"plan","limitScope":"COMPOSITE","compositeKeyFields":["descriptor","descriptor:plan"],"bands":[{"label":"day","capacity":9,"refill":"24h"}]}]}`)
	const known, test = `{"descriptor":[{"key":"route","value":"login"},{"key":"client","value":"web"}]}`, `{"descriptor":[{"key":"route","value":"login"},{"key":"client","value":"test-1"}]}`
	wantLines(t, r.explain(t, "envoy", known).Rules,
		"login true false 0 COMPOSITE by [descriptor:client] without []",
		"plan true false 0 COMPOSITE by [descriptor] without [descriptor:plan]")
	wantLines(t, r.explain(t, "envoy", test).Rules,
		"login false descriptor client false 0 COMPOSITE by [descriptor:client] without []",
		"plan true false 0 COMPOSITE by [descriptor] without [descriptor:plan]")
	r.check(t, &fluxgate.Request{RuleSet: "envoy", Descriptor: []fluxgate.DescriptorEntry{{Key: "route", Value: "login"}, {Key: "client", Value: "web"}}, Cost: 2})
	if got := r.peek(t, "envoy", `{"rules":["login"],"request":`+known+`}`); len(got) != 1 || got[0].Bands[0].Remaining != 3 {
		t.Errorf("the buckets are %+v", got)
	}
	r.send(t, http.MethodPost, "/v1/rule-sets/envoy/buckets/reset", `{"rule":"login","request":`+known+`}`).want(t, http.StatusNoContent)
	if got := r.peek(t, "envoy", `{"rules":["login"],"request":`+known+`}`); len(got) != 1 || got[0].Bands[0].Remaining != 5 {
		t.Errorf("after a reset the buckets are %+v", got)
	}
	tooLong := `{"descriptor":[` + strings.Repeat(`{"key":"k"},`, 16) + `{"key":"k"}]}`
	r.send(t, http.MethodPost, "/v1/rule-sets/envoy/explain", tooLong).want(t, http.StatusUnprocessableEntity)
}

// Decisions without a bucket are explained.
func TestExplain_WithoutBucket(t *testing.T) {
	r := onScene(t)
	for request, want := range map[string]string{
		`{"path":"/blocked","userId":"ann"}`:            "false denied blocked",
		`{"path":"/keys","userId":"ann"}`:               "false missing-identity per-key",
		`{"path":"/","userId":"ann","cost":6}`:          "false cost-too-high per-user",
		`{"path":"/","userId":"ann","cost":5}`:          "true ok per-user",
		`{"path":"/","ruleSet":"scene","userId":"ann"}`: "true ok per-user",
	} {
		d := r.explain(t, "scene", request).Decision
		if got := fmt.Sprintf("%t %s %s", d.Allowed, d.Reason, d.Rule); got != want {
			t.Errorf("%s is explained as %s, want %s", request, got, want)
		}
	}
}

// Effective rules do not use the store.
func TestEffective_NoStore(t *testing.T) {
	r := onScene(t)
	var got admin.Explanation
	r.send(t, http.MethodPost, "/v1/rule-sets/scene/effective?applying=true", `{"apiKey":"k","path":"/keys"}`).want(t, http.StatusOK).into(t, &got)
	wantLines(t, got.Rules,
		"per-key true false 5 API_KEY by [apiKey] without []",
		"per-user true false 4 people USER_ID by [] without [userId]",
		"everyone true false 0 GLOBAL by [] without []",
	)
	if got.Decision != nil {
		t.Errorf("it has a decision: %+v", got.Decision)
	}
}

// A peek returns what a caller has left.
func TestPeek_Remaining(t *testing.T) {
	r := onScene(t)
	for range 3 {
		r.check(t, &fluxgate.Request{RuleSet: "scene", UserID: "ann", Path: "/"})
	}
	found := r.peek(t, "scene", `{"request":{"userId":"ann","path":"/"}}`)
	var got []string
	for _, b := range found {
		for _, band := range b.Bands {
			got = append(got, fmt.Sprintf("%s.%s %d of %d", b.Rule, band.Label, band.Remaining, band.Limit))
		}
		if len(b.Key) != 48 || time.Since(b.Time).Abs() > time.Hour {
			t.Errorf("bucket %+v", b)
		}
	}
	if want := "per-user.day 2 of 5, per-user.month 47 of 50, everyone.day 97 of 100"; strings.Join(got, ", ") != want {
		t.Errorf("left are %s", strings.Join(got, ", "))
	}
	if other := r.peek(t, "scene", `{"request":{"userId":"bob"},"rules":["per-user"]}`); len(other) != 1 || other[0].Bands[0].Remaining != 5 || other[0].Key == found[0].Key {
		t.Errorf("another caller has %+v", other)
	}
	// Named rules are returned even if they do not match the request.
	if named := r.peek(t, "scene", `{"request":{"apiKey":"k","path":"/"},"rules":["second","per-key"]}`); len(named) != 2 || named[0].Rule != "second" || named[1].Rule != "per-key" {
		t.Errorf("the rules that were named have %+v", named)
	}
	r.create(t, yours, `{"id":"yours","rules":[]}`)
	if got := r.send(t, http.MethodPost, yours+"/buckets/peek", `{"request":{}}`).want(t, http.StatusOK); strings.TrimSpace(got.body) != `{"buckets":[]}` {
		t.Errorf("no buckets are %s", got.body)
	}
}

// Invalid requests are errors with a reason.
func TestExplain_Invalid(t *testing.T) {
	r := onScene(t)
	var many []string
	for i := range store.MaxMatches + 1 {
		many = append(many, ruleOf(fmt.Sprint("many-", i), 5))
	}
	r.create(t, "/v1/rule-sets/many", `{"id":"many","rules":[`+strings.Join(many, ",")+`]}`)
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"none/explain", `{}`, http.StatusNotFound, "none"},
		{"none/effective", `{}`, http.StatusNotFound, "none"},
		{"none/buckets/peek", `{"request":{}}`, http.StatusNotFound, "none"},
		{"none/buckets/reset", `{"all":true}`, http.StatusNotFound, "none"},
		{"none/buckets/reset", `{"rule":"r","key":"00112233445566778899aabbccddeeff0011223344556677"}`, http.StatusNotFound, "none"},
		{"scene/buckets/peek", `{"request":{},"rules":["none"]}`, http.StatusNotFound, "none"},
		{"scene/buckets/peek", `{"request":{},"rules":["everyone","none"]}`, http.StatusNotFound, "none"},
		{"scene/buckets/peek", `{"request":{},"rules":["off"]}`, http.StatusUnprocessableEntity, "disabled"},
		{"scene/buckets/peek", `{"request":{},"rules":["blocked"]}`, http.StatusUnprocessableEntity, "does not limit"},
		{"scene/buckets/peek", `{"request":{"path":"/keys"},"rules":["per-key"]}`, http.StatusUnprocessableEntity, "without apiKey"},
		{"scene/buckets/reset", `{"rule":"per-key","request":{}}`, http.StatusUnprocessableEntity, "has no apiKey"},
		{"scene/explain", `{"ruleSet":"mine"}`, http.StatusUnprocessableEntity, "ruleSet"},
		{"scene/explain", `{"ip":"nowhere"}`, http.StatusUnprocessableEntity, "ip"},
		{"many/buckets/peek", `{"request":{}}`, http.StatusUnprocessableEntity, "more than 64 rules"},
	} {
		p := r.send(t, http.MethodPost, "/v1/rule-sets/"+c.path, c.body).want(t, c.status).problem(t)
		if !strings.Contains(p.Error(), c.says) {
			t.Errorf("%s of %s: %q", c.path, c.body, p.Error())
		}
	}
}
