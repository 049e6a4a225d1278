package adminapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// overriddenRules has a rule by user and one by API key.
const overriddenRules = `{"id":"mine","rules":[
	{"id":"user","limitScope":"USER_ID","bands":[{"capacity":10,"refill":"24h"}]},
	{"id":"key","limitScope":"API_KEY","bands":[{"label":"day","capacity":10,"refill":"24h"}]}]}`

func (r *rig) limit(t *testing.T, rule string, req fluxgate.Request) int64 {
	t.Helper()
	req.RuleSet = "mine"
	buckets, err := r.engine.Buckets(t.Context(), &req, rule)
	do(t, err)
	return buckets[0].Bands[0].Limit
}

// An override is in effect on this server when its change is answered, and ends when it is
// deleted.
func TestOverrides(t *testing.T) {
	r := start(t)
	r.create(t, mine, overriddenRules)
	body := `{"overrides":[{"ruleId":"user","identity":{"userId":"acme"},"times":2.5,"until":"2999-01-01T00:00:00Z","reason":"launch"},
		{"ruleId":"key","identity":{"apiKey":"sesame-open"},"bands":[{"label":"day","capacity":77,"refill":"24h"}]}]}`
	var done admin.OverridesChanged
	r.send(t, http.MethodPut, mine+"/overrides?dryRun=true", body).want(t, http.StatusOK)
	if got := r.limit(t, "user", fluxgate.Request{UserID: "acme"}); got != 10 {
		t.Errorf("after a dry run the limit is %d, not 10", got)
	}
	r.send(t, http.MethodPut, mine+"/overrides", body).want(t, http.StatusOK).into(t, &done)
	if len(done.IDs) != 2 || done.Revision < 2 {
		t.Errorf("answers %+v", done)
	}
	if user, key := r.limit(t, "user", fluxgate.Request{UserID: "acme"}), r.limit(t, "key", fluxgate.Request{APIKey: "sesame-open"}); user != 25 || key != 77 {
		t.Errorf("the limits are %d and %d, not 25 and 77", user, key)
	}
	last := r.lastRecord(t)
	if last.Operation != "put-overrides" || last.Outcome != audit.Changed || !strings.Contains(string(last.Changes), "launch") || strings.Contains(string(last.Changes), "sesame") {
		t.Errorf("the audit has %+v with %s", last, last.Changes)
	}
	var page admin.Overrides
	got := r.send(t, http.MethodGet, mine+"/overrides?limit=1", "", "Authorization", "Bearer "+tokenRead).want(t, http.StatusOK)
	got.into(t, &page)
	if len(page.Overrides) != 1 || page.Overrides[0].Rule != "user" || page.Overrides[0].Author != "token:writer" || page.Overrides[0].At == nil || page.Next == "" {
		t.Errorf("the first page is %s", got.body)
	}
	got = r.send(t, http.MethodGet, mine+"/overrides?limit=5&after="+page.Next, "").want(t, http.StatusOK)
	if !strings.Contains(got.body, `"capacity":77`) || strings.Contains(got.body, "sesame") || !strings.Contains(got.body, "sha256:") {
		t.Errorf("the last page is %s", got.body)
	}
	got = r.send(t, http.MethodGet, mine+"/overrides/"+done.IDs[0], "").want(t, http.StatusOK)
	if !strings.Contains(got.body, `"times":2.5`) {
		t.Errorf("answers %s", got.body)
	}
	x := r.explain(t, "mine", `{"userId":"acme"}`)
	if over := x.Rules[1].Override; over == nil || over.Times != 2_500 || over.Until == nil {
		t.Errorf("explained as %+v", x.Rules)
	}
	r.send(t, http.MethodDelete, mine+"/overrides/"+done.IDs[0], "").want(t, http.StatusOK)
	r.send(t, http.MethodDelete, mine+"/overrides/"+done.IDs[0], "").want(t, http.StatusNotFound)
	if got := r.limit(t, "user", fluxgate.Request{UserID: "acme"}); got != 10 {
		t.Errorf("after the deletion the limit is %d, not 10", got)
	}
}

// A deletion names the caller as a write does.
func TestOverrides_DeletedIdentity(t *testing.T) {
	r := start(t)
	r.create(t, mine, `{"id":"mine","rules":[{"id":"ip","limitScope":"IP","bands":[{"capacity":10,"refill":"24h"}]}]}`)
	for _, change := range []string{`"times":2`, `"deleted":true`} {
		r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[{"ruleId":"ip","identity":{"ip":"2001:db8::1"},`+change+`}]}`).want(t, http.StatusOK)
	}
	if all, err := r.rules.ListOverrides(t.Context(), "mine", "", 10); err != nil || len(all.Overrides) > 0 {
		t.Errorf("after the deletion there are %+v, %v", all, err)
	}
}

func TestOverrides_Conflict(t *testing.T) {
	r := start(t)
	r.create(t, mine, overriddenRules)
	put := func(times string, revision int64) answer {
		t.Helper()
		return r.send(t, http.MethodPut, mine+"/overrides",
			fmt.Sprintf(`{"overrides":[{"ruleId":"user","identity":{"userId":"acme"},"times":%s,"revision":%d}]}`, times, revision))
	}
	var first, second admin.OverridesChanged
	put("2", -1).want(t, http.StatusOK).into(t, &first)
	put("3", -1).want(t, http.StatusPreconditionFailed)
	put("3", first.Revision).want(t, http.StatusOK).into(t, &second)
	current := fmt.Sprint("revision ", second.Revision)
	if p := put("4", first.Revision).want(t, http.StatusPreconditionFailed).problem(t); p.Kind != admin.KindConflict || !strings.Contains(p.Detail, current) {
		t.Errorf("answers %+v", p)
	}
	if got := r.limit(t, "user", fluxgate.Request{UserID: "acme"}); got != 30 {
		t.Errorf("the limit is %d, not 30", got)
	}
}

// All that is wrong is named, by position, and nothing is written.
func TestOverrides_Invalid(t *testing.T) {
	r := start(t)
	r.create(t, mine, overriddenRules)
	ok := `{"ruleId":"user","identity":{"userId":"acme"},"times":2}`
	for name, c := range map[string]struct{ body, want string }{
		"another rule":  {ok + `,{"ruleId":"other","identity":{},"times":2}`, "body.overrides[1]"},
		"another part":  {ok + `,{"ruleId":"user","identity":{"ip":"192.0.2.1"},"times":2}`, "has no userId"},
		"the same":      {ok + "," + ok, "the same rule and identity as override 0"},
		"no times":      {`{"ruleId":"user","identity":{"userId":"acme"}}`, "either times or bands"},
		"a wrong times": {`{"ruleId":"user","identity":{"userId":"acme"},"times":-1}`, "times"},
		"too large":     {`{"ruleId":"user","identity":{"userId":"acme"},"times":1000000000000000}`, "53-bit"},
		"a number":      {`{"ruleId":"key","identity":{"apiKey":123456789},"times":1}`, "must be a string"},
		"not an object": {"7", "must be an object"},
	} {
		got := r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[`+c.body+`]}`)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, c.want) || strings.Contains(got.body, "123456789") {
			t.Errorf("%s is answered with %d: %s", name, got.status, got.body)
		}
	}
	r.send(t, http.MethodPut, mine+"/overrides", `[]`).want(t, http.StatusBadRequest)
	if all, err := r.rules.ListOverrides(t.Context(), "mine", "", 10); err != nil || len(all.Overrides) > 0 {
		t.Errorf("%v were written: %v", all, err)
	}
	many := strings.Repeat(ok+",", admin.MaxOverrides) + ok
	r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[`+many+`]}`).want(t, http.StatusUnprocessableEntity)
}

// A change of rules with which overrides do not fit any more needs force.
func TestOverrides_Unfit(t *testing.T) {
	r := start(t)
	r.create(t, mine, overriddenRules)
	r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[{"ruleId":"user","identity":{"userId":"acme"},"times":2}]}`).want(t, http.StatusOK)
	if p := r.send(t, http.MethodDelete, mine+"/rules/user", "", "If-Match", `"1"`).want(t, http.StatusConflict).problem(t); !strings.Contains(p.Detail, "force") {
		t.Errorf("answers %+v", p)
	}
	r.send(t, http.MethodDelete, mine+"/rules/key", "", "If-Match", `"1"`).want(t, http.StatusOK)
	r.send(t, http.MethodDelete, mine+"/rules/user?force=true", "", "If-Match", `"2"`).want(t, http.StatusOK)
	set, err := rules.NewSet("mine")
	do(t, err)
	if p := r.engine.Overrides().Problems(set); len(p) != 1 {
		t.Errorf("problems %v", p)
	}
	var page admin.Overrides
	r.send(t, http.MethodGet, mine+"/overrides", "").want(t, http.StatusOK).into(t, &page)
	r.send(t, http.MethodDelete, mine+"/overrides/"+page.Overrides[0].ID, "").want(t, http.StatusOK) // without its rule
}

func TestOverrides_Access(t *testing.T) {
	r := start(t)
	r.create(t, mine, overriddenRules)
	r.create(t, yours, strings.ReplaceAll(overriddenRules, "mine", "yours"))
	body := `{"overrides":[{"ruleId":"user","identity":{"userId":"acme"},"times":2,"author":"token:someone","ruleSetId":"yours"}]}`
	for _, token := range []string{tokenRead, tokenCheck} {
		r.send(t, http.MethodPut, mine+"/overrides", body, "Authorization", "Bearer "+token).want(t, http.StatusForbidden)
	}
	tenant := []string{"Authorization", "Bearer " + tokenOne}
	r.send(t, http.MethodPut, yours+"/overrides", body, tenant...).want(t, http.StatusForbidden)
	r.send(t, http.MethodGet, yours+"/overrides", "", tenant...).want(t, http.StatusForbidden)
	var done admin.OverridesChanged
	r.send(t, http.MethodPut, mine+"/overrides", body, tenant...).want(t, http.StatusOK).into(t, &done)
	r.send(t, http.MethodGet, yours+"/overrides/"+done.IDs[0], "", tenant...).want(t, http.StatusForbidden)
	r.send(t, http.MethodGet, yours+"/overrides/"+done.IDs[0], "").want(t, http.StatusNotFound)
	if o, err := r.rules.Override(t.Context(), "mine", done.IDs[0]); err != nil || o.Author != "token:tenant" {
		t.Errorf("%+v %v", o, err)
	}
}

// fleet is the reports of other servers.
type fleet map[string][]byte

func (fleet) ID() string                                               { return "self" }
func (fleet) WriteReport(context.Context, []byte, time.Duration) error { return nil }
func (fleet) Leave(context.Context) error                              { return nil }
func (fleet) LostReports(context.Context, int) (map[string]redisstore.LostReport, error) {
	return nil, nil
}
func (f fleet) Reports(context.Context, int) (map[string][]byte, error) { return f, nil }

// While a server runs that does not know overrides, they can only be deleted.
func TestOverrides_OlderServer(t *testing.T) {
	for report, want := range map[string]int{
		`{"v":1,"name":"older"}`: http.StatusConflict,
		`{"v":1,"name":"older","understands":["token-bucket","until"]}`:             http.StatusConflict,
		`{"v":1,"name":"newer","understands":["token-bucket","until","overrides"]}`: http.StatusOK,
	} {
		r := start(t, func(s *settings) {
			s.fleet = func() (insight.Fleet, error) { return fleet{"another": []byte(report)}, nil }
		})
		r.create(t, mine, overriddenRules)
		const change = `{"overrides":[{"ruleId":"user","identity":{"userId":"acme"},"times":2}]}`
		got := r.send(t, http.MethodPut, mine+"/overrides", change).want(t, want)
		if want != http.StatusOK && !strings.Contains(got.body, "older") {
			t.Errorf("answers %s", got.body)
		}
		r.send(t, http.MethodPut, mine+"/overrides?dryRun=true", change).want(t, http.StatusOK)
		r.send(t, http.MethodPut, mine+"/overrides", strings.Replace(change, `"times":2`, `"deleted":true`, 1)).want(t, http.StatusOK)
	}
}

// An override is for the caller that is spelled like this, and for no other.
func TestOverrides_Spellings(t *testing.T) {
	r := start(t)
	r.create(t, mine, `{"id":"mine","rules":[{"id":"user","limitScope":"USER_ID","bands":[{"capacity":10,"refill":"24h"}]},
		{"id":"both","limitScope":"COMPOSITE","compositeKeyFields":["userId","attr:tenant"],"bands":[{"capacity":10,"refill":"24h"}]}]}`)
	users := []string{
		"acme", "Acme", "acme ", " acme", "ac me", "acme\t", "acme\n", "acme:x", "acme|x", "acme/x", "acme,x", "{acme}", "*", "%61cme", "acme\x00", "acme\u0000x",
		"caf\u00e9", "cafe\u0301", "\ufb01", "fi", "a\u200bcme", "\u202eemca", "АСМЕ", strings.Repeat("x", 1<<10), strings.Repeat("x", 1<<10-1) + "y",
	}
	for i, user := range users {
		body, err := json.Marshal(map[string]any{"overrides": []any{map[string]any{"ruleId": "user", "identity": map[string]string{"userId": user}, "times": i + 2}}})
		do(t, err)
		r.send(t, http.MethodPut, mine+"/overrides", string(body)).want(t, http.StatusOK)
	}
	for i, user := range users {
		if got := r.limit(t, "user", fluxgate.Request{UserID: user}); got != int64(10*(i+2)) {
			t.Errorf("%.20q has the limit %d, not %d", user, got, 10*(i+2))
		}
	}
	for _, user := range []string{"acme  ", "ACME", "ac", "acme:", "cafe", "x"} {
		if got := r.limit(t, "user", fluxgate.Request{UserID: user}); got != 10 {
			t.Errorf("%q has the limit %d, not 10", user, got)
		}
	}
	pairs := [][2]string{{"a", "bc"}, {"ab", "c"}, {"a:b", "c"}, {"a", "b:c"}, {"c", "ab"}}
	for i, p := range pairs {
		body, err := json.Marshal(map[string]any{"overrides": []any{map[string]any{"ruleId": "both", "identity": map[string]string{"userId": p[0], "attr:tenant": p[1]}, "times": i + 2}}})
		do(t, err)
		r.send(t, http.MethodPut, mine+"/overrides", string(body)).want(t, http.StatusOK)
	}
	for i, p := range pairs {
		if got := r.limit(t, "both", fluxgate.Request{UserID: p[0], Attributes: map[string]string{"tenant": p[1]}}); got != int64(10*(i+2)) {
			t.Errorf("%q has the limit %d, not %d", p, got, 10*(i+2))
		}
	}
	for _, identity := range []string{`{"userId":"` + strings.Repeat("x", 8<<10) + `"}`, `{"userId":""}`, `{"userId":"a","ip":"192.0.2.1"}`, `{"userId":["a"]}`, `[]`, `"a"`} {
		r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[{"ruleId":"user","identity":`+identity+`,"times":2}]}`).want(t, http.StatusUnprocessableEntity)
	}
}

// No factor makes numbers that are not exact.
func TestOverrides_Factors(t *testing.T) {
	r := start(t)
	r.create(t, mine, overriddenRules)
	for times, want := range map[string]int64{
		"0.001": 1, "0.1": 1, "0.199": 1, "0.2": 2, "1.999": 19, "1e1": 0, "2.0": 20, "0": 0, "-0.5": 0, "0.0001": 0, "1.2345": 0, "1e400": 0,
		"9223372036854775.807": 0, "9223372036854775807": 0, "9223372036854775.808": 0, "1844674407370955.162": 0, "NaN": 0, "true": 0, "[2]": 0, "100000": 1_000_000,
	} {
		got := r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[{"ruleId":"user","identity":{"userId":`+strconv.Quote("u"+times)+`},"times":`+times+`}]}`)
		now := r.limit(t, "user", fluxgate.Request{UserID: "u" + times})
		if want == 0 && (got.status < 400 || got.status > 422 || now != 10) || want > 0 && (got.status != http.StatusOK || now != want) {
			t.Errorf("times %s is answered with %d, and the limit is %d, want %d: %s", times, got.status, now, want, got.body)
		}
	}
}

// The overrides of a rule set are deleted with it, which the audit says, and do not apply to the next one
// of its name. Nor does a restore bring them back.
func TestOverrides_DeletedWithRuleSet(t *testing.T) {
	r := start(t)
	r.create(t, mine, overriddenRules)
	r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[{"ruleId":"user","identity":{"userId":"acme"},"times":100}]}`).want(t, http.StatusOK)
	if got := r.limit(t, "user", fluxgate.Request{UserID: "acme"}); got != 1_000 {
		t.Fatalf("with the override the limit is %d", got)
	}
	r.send(t, http.MethodDelete, mine, "", "If-Match", "*").want(t, http.StatusOK)
	if last := r.lastRecord(t); last.Operation != "delete-rule-set" || last.Detail != "overrides deleted with it: 1" {
		t.Errorf("the audit has %+v", last)
	}
	r.create(t, mine, overriddenRules)
	if got := r.limit(t, "user", fluxgate.Request{UserID: "acme"}); got != 10 {
		t.Errorf("after it was created again the limit is %d, not 10", got)
	}
	r.send(t, http.MethodDelete, mine, "", "If-Match", "*").want(t, http.StatusOK)
	if last := r.lastRecord(t); last.Detail != "" {
		t.Errorf("the audit has %+v", last)
	}
	r.send(t, http.MethodPost, mine+"/revisions/1/restore", "", "If-None-Match", "*").want(t, http.StatusCreated)
	if got := r.limit(t, "user", fluxgate.Request{UserID: "acme"}); got != 10 {
		t.Errorf("after a restore the limit is %d, not 10", got)
	}
}

// Of overrides that are written in several parts, the parts before an error are written, in effect and in
// the audit, which says that something was changed.
func TestOverrides_WrittenInPart(t *testing.T) {
	r := start(t)
	r.create(t, mine, overriddenRules)
	changes := make([]string, 1_500)
	for i := range changes {
		changes[i] = fmt.Sprintf(`{"ruleId":"user","identity":{"userId":"u%d"},"times":10}`, i)
	}
	changes[1_200] = `{"ruleId":"user","identity":{"userId":"u1200"},"times":10,"revision":77}`
	got := r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[`+strings.Join(changes, ",")+`]}`)
	if p := got.want(t, http.StatusPreconditionFailed).problem(t); !strings.Contains(p.Detail, "1000 of 1500 were written before") {
		t.Errorf("the answer is %s", p.Detail)
	}
	if first, last := r.limit(t, "user", fluxgate.Request{UserID: "u0"}), r.limit(t, "user", fluxgate.Request{UserID: "u1400"}); first != 100 || last != 10 {
		t.Errorf("the limits are %d and %d, not 100 and 10", first, last)
	}
	last := r.lastRecord(t)
	var written struct {
		Overrides []rules.OverrideDocument
		More      int
	}
	do(t, json.Unmarshal(last.Changes, &written))
	if last.Outcome != audit.Changed || last.Status != http.StatusPreconditionFailed || len(written.Overrides)+written.More != 1_000 ||
		!strings.Contains(last.Detail, "1000 of 1500 were written before") {
		t.Errorf("the audit has %s (%d) with %d and %d more: %s", last.Outcome, last.Status, len(written.Overrides), written.More, last.Detail)
	}
}

// A header whose name suggests a secret is shown and recorded as its digest, by which the override is found.
func TestOverrides_SecretHeader(t *testing.T) {
	var log testenv.LogBuffer
	r := start(t, func(s *settings) { s.auditLog = slog.New(slog.NewTextHandler(&log, nil)) })
	r.create(t, mine, `{"id":"mine","rules":[{"id":"key","limitScope":"COMPOSITE","compositeKeyFields":["header:Authorization","attr:api_key"],"bands":[{"capacity":10,"refill":"24h"}]}]}`)
	limit := func() int64 {
		t.Helper()
		return r.limit(t, "key", fluxgate.Request{
			Headers: map[string][]string{"Authorization": {"Bearer open-sesame"}}, Attributes: map[string]string{"api_key": "open-sesame"},
		})
	}
	const override = `{"ruleId":"key","identity":{"header:authorization":"Bearer open-sesame","attr:api_key":"open-sesame"},`
	var done admin.OverridesChanged
	answers := []answer{r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[`+override+`"times":3}]}`).want(t, http.StatusOK)}
	answers[0].into(t, &done)
	if got := limit(); got != 30 {
		t.Errorf("the limit is %d, not 30", got)
	}
	answers = append(answers, r.send(t, http.MethodGet, mine+"/overrides", "").want(t, http.StatusOK))
	answers = append(answers,
		r.send(t, http.MethodPut, mine+"/overrides", answers[1].body).want(t, http.StatusOK), // what was listed
		r.send(t, http.MethodGet, mine+"/overrides/"+done.IDs[0], "").want(t, http.StatusOK),
		r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[`+override+`"times":3,"revision":7}]}`).want(t, http.StatusPreconditionFailed),
		r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[`+override+`"times":0}]}`).want(t, http.StatusUnprocessableEntity),
		r.send(t, http.MethodDelete, mine+"/overrides/"+done.IDs[0], "").want(t, http.StatusOK))
	if got := limit(); got != 10 {
		t.Errorf("after the deletion the limit is %d, not 10", got)
	}
	r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[`+override+`"times":3}]}`).want(t, http.StatusOK)
	if got := limit(); got != 30 {
		t.Errorf("after it was written again the limit is %d, not 30", got)
	}
	r.send(t, http.MethodPut, mine+"/overrides", `{"overrides":[`+override+`"deleted":true}]}`).want(t, http.StatusOK)
	if got := limit(); got != 10 {
		t.Errorf("after the deletion by the secret the limit is %d, not 10", got)
	}
	shown := log.String() + fmt.Sprint(answers)
	if strings.Contains(shown, "sesame") || !strings.Contains(answers[1].body, rules.DigestAPIKey("Bearer open-sesame")) {
		t.Errorf("shown are %s", shown)
	}
}
