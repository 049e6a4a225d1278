package adminapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/store"
)

// A reset fills the buckets that it names and no others.
func TestReset_Scope(t *testing.T) {
	r := start(t)
	r.create(t, mine, `{"id":"mine","rules":[
		{"id":"a","limitScope":"USER_ID","bands":[{"label":"day","capacity":10,"refill":"24h"}]},
		{"id":"b","limitScope":"USER_ID","bands":[{"label":"day","capacity":10,"refill":"24h"}]}]}`)
	r.create(t, yours, `{"id":"yours","rules":[{"id":"c","limitScope":"USER_ID","bands":[{"label":"day","capacity":10,"refill":"24h"}]}]}`)
	left := func() string {
		t.Helper()
		var all []string
		for _, user := range []string{"ann", "bob"} {
			for _, set := range []string{"mine", "yours"} {
				for _, b := range r.peek(t, set, fmt.Sprintf(`{"request":{"userId":%q}}`, user)) {
					all = append(all, fmt.Sprintf("%s.%s %d", user, b.Rule, b.Bands[0].Remaining))
				}
			}
		}
		return strings.Join(all, ", ")
	}
	const used = "ann.a 7, ann.b 7, ann.c 7, bob.a 7, bob.b 7, bob.c 7"
	key := r.explain(t, "mine", `{"userId":"bob"}`).Rules[0].Key
	for _, c := range []struct{ name, body, want string }{
		{"one caller by a request", `{"rule":"a","request":{"userId":"ann"}}`, "ann.a 10, ann.b 7, ann.c 7, bob.a 7, bob.b 7, bob.c 7"},
		{"one caller by a request with the rule set", `{"rule":"a","request":{"ruleSet":"mine","userId":"ann"}}`, "ann.a 10, ann.b 7, ann.c 7, bob.a 7, bob.b 7, bob.c 7"},
		{"one caller by its key", `{"rule":"a","key":"` + key + `"}`, "ann.a 7, ann.b 7, ann.c 7, bob.a 10, bob.b 7, bob.c 7"},
		{"a rule", `{"ruleSet":"mine","rule":"b","all":true}`, "ann.a 7, ann.b 10, ann.c 7, bob.a 7, bob.b 10, bob.c 7"},
		{"a rule set", `{"all":true}`, "ann.a 10, ann.b 10, ann.c 7, bob.a 10, bob.b 10, bob.c 7"},
	} {
		do(t, r.engine.Reset(t.Context(), store.Key{RuleSet: "mine"}))
		do(t, r.engine.Reset(t.Context(), store.Key{RuleSet: "yours"}))
		for _, user := range []string{"ann", "bob"} {
			r.check(t, &fluxgate.Request{RuleSet: "mine", UserID: user, Cost: 3})
			r.check(t, &fluxgate.Request{RuleSet: "yours", UserID: user, Cost: 3})
		}
		if got := left(); got != used {
			t.Fatalf("before a reset of %s left are %s", c.name, got)
		}
		if got := r.send(t, http.MethodPost, mine+"/buckets/reset", c.body).want(t, http.StatusNoContent); got.body != "" {
			t.Errorf("a reset answers %s", got.body)
		}
		if got := left(); got != c.want {
			t.Errorf("after a reset of %s left are\n%s, want\n%s", c.name, got, c.want)
		}
		last := r.lastRecord(t)
		if last.Operation != "reset-buckets" || last.RuleSet != "mine" || last.Outcome != audit.Changed || last.Who != "token:writer" || (last.Rule == "") != (c.name == "a rule set") || (last.Key != "") != strings.HasPrefix(c.name, "one caller") {
			t.Errorf("the audit of a reset of %s has %+v", c.name, last)
		}
	}
}

// The key of a bucket resets it under its own rule set and rule only.
func TestReset_KeyOfAnotherBucket(t *testing.T) {
	r := start(t)
	rule := `{"id":%q,"limitScope":"USER_ID","bands":[{"label":"day","capacity":10,"refill":"24h"}]}`
	r.create(t, mine, fmt.Sprintf(`{"id":"mine","rules":[`+rule+`,`+rule+`]}`, "a", "b"))
	r.create(t, yours, fmt.Sprintf(`{"id":"yours","rules":[`+rule+`]}`, "c"))
	r.check(t, &fluxgate.Request{RuleSet: "mine", UserID: "ann", Cost: 3})
	r.check(t, &fluxgate.Request{RuleSet: "yours", UserID: "ann", Cost: 3})
	key := map[string]string{}
	for _, set := range []string{"mine", "yours"} {
		for _, v := range r.explain(t, set, `{"userId":"ann"}`).Rules {
			key[v.Rule] = v.Key
		}
	}
	tenant := []string{"Authorization", "Bearer " + tokenOne}
	for name, body := range map[string]string{
		"another tenant's":        fmt.Sprintf(`{"rule":"a","key":%q}`, key["c"]),
		"another rule's":          fmt.Sprintf(`{"rule":"a","key":%q}`, key["b"]),
		"of another caller":       fmt.Sprintf(`{"rule":"a","key":%q}`, strings.Repeat("0", 32)+key["a"][32:]),
		"with another's end":      fmt.Sprintf(`{"rule":"a","key":%q}`, key["c"][:32]+key["a"][32:]),
		"without its end":         fmt.Sprintf(`{"rule":"a","key":%q}`, key["a"][:32]),
		"in capital letters":      fmt.Sprintf(`{"rule":"a","key":%q}`, strings.ToUpper(key["a"])),
		"with zeros for its end":  fmt.Sprintf(`{"rule":"a","key":%q}`, key["c"][:32]+strings.Repeat("0", 16)),
		"of an unknown rule":      fmt.Sprintf(`{"rule":"c","key":%q}`, key["c"]),
		"of its rule, and longer": fmt.Sprintf(`{"rule":"a","key":%q}`, key["a"]+"00"),
	} {
		got := r.send(t, http.MethodPost, mine+"/buckets/reset", body, tenant...)
		if got.status != http.StatusUnprocessableEntity && got.status != http.StatusNotFound {
			t.Errorf("a key %s is answered %d: %s", name, got.status, got.body)
		}
	}
	for _, set := range []string{"mine", "yours"} {
		for _, b := range r.peek(t, set, `{"request":{"userId":"ann"}}`) {
			if b.Bands[0].Remaining != 7 {
				t.Errorf("the bucket of rule %s in %s was reset", b.Rule, set)
			}
		}
	}
	got := r.send(t, http.MethodPost, mine+"/buckets/reset", fmt.Sprintf(`{"rule":"a","key":%q}`, key["c"]), tenant...)
	if p := got.problem(t); !strings.Contains(p.Detail, `not the key of a bucket of rule "a" in rule set "mine"`) {
		t.Errorf("the answer is %q", p.Detail)
	}
	r.send(t, http.MethodPost, mine+"/buckets/reset", fmt.Sprintf(`{"rule":"a","key":%q}`, key["a"]), tenant...).want(t, http.StatusNoContent)
	if last := r.lastRecord(t); last.Key != key["a"] {
		t.Errorf("the audit has %+v, want the key as it was sent", last)
	}
}

// A tenant that resets too many rules one by one gets an error, and other tenants are
// not affected.
func TestReset_TooMany(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", slices.Repeat([]int{5}, 1_001)...))
	r.create(t, yours, setOf("yours", 5, 5))
	for i := range 1_000 {
		do(t, r.engine.Reset(t.Context(), store.Key{RuleSet: "mine", Rule: fmt.Sprint("mine-", i)}))
	}
	p := r.send(t, http.MethodPost, mine+"/buckets/reset", `{"rule":"mine-1000","all":true}`).want(t, http.StatusUnprocessableEntity).problem(t)
	if !strings.Contains(p.Detail, `1000 rules of rule set "mine" were reset one by one`) || strings.Contains(p.Detail, "cannot be asked") {
		t.Errorf("the detail is %q", p.Detail)
	}
	r.send(t, http.MethodPost, yours+"/buckets/reset", `{"rule":"yours-1","all":true}`).want(t, http.StatusNoContent)
	r.send(t, http.MethodPost, mine+"/buckets/reset", `{"all":true}`).want(t, http.StatusNoContent)
	r.send(t, http.MethodPost, mine+"/buckets/reset", `{"rule":"mine-1000","all":true}`).want(t, http.StatusNoContent)
}
