package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/audit"
)

// setOf returns a rule set as JSON, with unique rule ids and the given capacities.
func setOf(id string, capacities ...int) string {
	var all []string
	for i, capacity := range capacities {
		all = append(all, ruleOf(fmt.Sprintf("%s-%d", id, i), capacity))
	}
	return fmt.Sprintf(`{"id":%q,"rules":[%s]}`, id, strings.Join(all, ","))
}

func ruleOf(id string, capacity int) string {
	return fmt.Sprintf(`{"id":%q,"bands":[{"label":"day","capacity":%d,"refill":"24h"}]}`, id, capacity)
}

const mine, yours = "/v1/rule-sets/mine", "/v1/rule-sets/yours"

// create creates a rule set.
func (r *rig) create(t testing.TB, path, set string) answer {
	t.Helper()
	return r.send(t, http.MethodPut, path, set, "If-None-Match", "*").want(t, http.StatusCreated)
}

// read returns the current rule set and its ETag.
func (r *rig) read(t testing.TB, path string) (*rules.Set, string) {
	t.Helper()
	got := r.send(t, http.MethodGet, path, "").want(t, http.StatusOK)
	set, err := rules.Parse([]byte(got.body))
	do(t, err)
	return set, got.header.Get("ETag")
}

// first returns the first rule of a rule set.
func first(t testing.TB, set *rules.Set) *rules.Rule {
	t.Helper()
	for rule := range set.Rules() {
		return &rule
	}
	t.Fatal("the rule set has no rules")
	return nil
}

// A rule set is created, read, replaced and deleted.
func TestRuleSet_Lifecycle(t *testing.T) {
	r := start(t)
	created := r.create(t, mine+"?comment=the+first", setOf("mine", 5))
	var entry rules.Entry
	created.into(t, &entry)
	if created.header.Get("ETag") != `"1"` || entry.RuleSetID != "mine" || entry.Revision != 1 || entry.Author != "token:writer" || entry.Comment != "the first" {
		t.Errorf("created as %s %+v", created.header.Get("ETag"), entry)
	}
	if set, tag := r.read(t, mine); tag != `"1"` || first(t, set).Bands[0].Capacity != 5 {
		t.Errorf("read as %s, %+v", tag, first(t, set))
	}
	changed := r.send(t, http.MethodPut, mine, setOf("mine", 6), "If-Match", `"1"`).want(t, http.StatusOK)
	if tag := changed.header.Get("ETag"); tag != `"2"` {
		t.Errorf("changed to %s", tag)
	}
	if set, tag := r.read(t, mine); tag != `"2"` || first(t, set).Bands[0].Capacity != 6 {
		t.Errorf("read as %s, %+v", tag, first(t, set))
	}
	// It is in effect.
	if got := r.explain(t, "mine", `{}`).Decision; got.Limit != 6 {
		t.Errorf("the decision has a limit of %d", got.Limit)
	}
	gone := r.send(t, http.MethodDelete, mine+"?comment=no+more", "", "If-Match", `"2"`).want(t, http.StatusOK)
	gone.into(t, &entry)
	if entry.Revision != 3 || !entry.Deleted || gone.header.Get("ETag") != `"3"` {
		t.Errorf("deleted as %s %+v", gone.header.Get("ETag"), entry)
	}
	if p := r.send(t, http.MethodGet, mine, "").want(t, http.StatusNotFound).problem(t); p.Kind != admin.KindNotFound || p.Status != http.StatusNotFound {
		t.Errorf("a deleted rule set is %+v", p)
	}
	r.send(t, http.MethodPost, mine+"/explain", `{}`).want(t, http.StatusNotFound)

	var history admin.Revisions
	r.send(t, http.MethodGet, mine+"/revisions", "").want(t, http.StatusOK).into(t, &history)
	var lines []string
	for _, e := range history.Revisions {
		lines = append(lines, fmt.Sprintf("%d %t %s %q", e.Revision, e.Deleted, e.Author, e.Comment))
		if e.At.IsZero() || time.Since(e.At).Abs() > time.Hour {
			t.Errorf("revision %d was created at %v", e.Revision, e.At)
		}
	}
	if want := "3 true token:writer \"no more\"\n2 false token:writer \"\"\n1 false token:writer \"the first\""; strings.Join(lines, "\n") != want {
		t.Errorf("the history is\n%s", strings.Join(lines, "\n"))
	}

	var restored rules.Entry
	r.send(t, http.MethodPost, mine+"/revisions/1/restore", "", "If-None-Match", "*").want(t, http.StatusCreated).into(t, &restored)
	if want := rules.RestoreComment(1); restored.Comment != want || r.lastRecord(t).Comment != want {
		t.Errorf("the answer has the comment %q, the audit %q", restored.Comment, r.lastRecord(t).Comment)
	}
	if set, tag := r.read(t, mine); tag != `"4"` || first(t, set).Bands[0].Capacity != 5 {
		t.Errorf("restored as %s, %+v", tag, first(t, set))
	}
	r.send(t, http.MethodGet, mine+"/revisions?limit=1", "").into(t, &history)
	if got := history.Revisions[0].Comment; got != rules.RestoreComment(1) {
		t.Errorf("restored because %q", got)
	}
}

// A change that changes nothing makes no revision.
func TestRuleSet_Unchanged(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 5))
	was, _ := r.read(t, mine)
	for _, same := range []string{
		setOf("mine", 5),
		`{"rules":[{"limitScope":"GLOBAL","enabled":true,"createdAt":"2001-02-03T04:05:06Z","bands":[{"refillSeconds":86400,"capacity":5,"refillTokens":5,"label":"day"}],"id":"mine-0"}],"id":"mine"}`,
	} {
		got := r.send(t, http.MethodPut, mine, same, "If-Match", `"1"`).want(t, http.StatusOK)
		var entry rules.Entry
		got.into(t, &entry)
		if got.header.Get("ETag") != `"1"` || entry.Revision != 1 {
			t.Errorf("%s makes revision %d with the ETag %s", same, entry.Revision, got.header.Get("ETag"))
		}
		if last := r.lastRecord(t); last.Outcome != audit.Unchanged || last.Before != 1 || last.After != 1 || last.Changes != nil {
			t.Errorf("the audit has %+v", last)
		}
	}
	if is, tag := r.read(t, mine); tag != `"1"` || !first(t, is).UpdatedAt.Equal(first(t, was).UpdatedAt) {
		t.Errorf("it is %s, updated at %v", tag, first(t, is).UpdatedAt)
	}
	// A change without differences must also be based on the current revision.
	r.send(t, http.MethodPut, mine, setOf("mine", 6), "If-Match", `"1"`).want(t, http.StatusOK)
	r.send(t, http.MethodPut, mine, setOf("mine", 5), "If-Match", `"1"`).want(t, http.StatusPreconditionFailed)
}

// Times of rules in a request are ignored.
func TestRuleSet_RuleTimes(t *testing.T) {
	r := start(t)
	const lie = `"createdAt":"2001-02-03T04:05:06Z","updatedAt":"2099-02-03T04:05:06Z",`
	before := time.Now().Add(-time.Second)
	sent := strings.ReplaceAll(setOf("mine", 5, 6), `"bands"`, lie+`"bands"`)
	r.create(t, mine, sent)
	times := func() map[string][2]time.Time {
		set, _ := r.read(t, mine)
		all := map[string][2]time.Time{}
		for rule := range set.Rules() {
			all[rule.ID] = [2]time.Time{rule.CreatedAt, rule.UpdatedAt}
			if rule.CreatedAt.Before(before) || rule.UpdatedAt.Before(rule.CreatedAt) || rule.UpdatedAt.After(time.Now().Add(time.Second)) {
				t.Errorf("rule %s was created at %v and updated at %v", rule.ID, rule.CreatedAt, rule.UpdatedAt)
			}
		}
		return all
	}
	was := times()
	waitForClock(was["mine-0"][1])
	r.send(t, http.MethodPut, mine, strings.Replace(sent, `"capacity":5`, `"capacity":50`, 1), "If-Match", `"1"`).want(t, http.StatusOK)
	is := times()
	if is["mine-1"] != was["mine-1"] {
		t.Errorf("the rule that is the same has other times: %v, it had %v", is["mine-1"], was["mine-1"])
	}
	if is["mine-0"][0] != was["mine-0"][0] || !is["mine-0"][1].After(was["mine-0"][1]) {
		t.Errorf("the rule that was changed has the times %v, it had %v", is["mine-0"], was["mine-0"])
	}
	r.send(t, http.MethodPut, mine+"/rules/mine-0", strings.Replace(ruleOf("mine-0", 51), `"bands"`, lie+`"bands"`, 1), "If-Match", `"2"`).want(t, http.StatusOK)
	if now := times()["mine-0"]; now[0] != was["mine-0"][0] {
		t.Errorf("a rule that was put alone has the times %v", now)
	}
}

// waitForClock waits until the current time is later, in milliseconds.
func waitForClock(than time.Time) {
	for !time.Now().Truncate(time.Millisecond).After(than) {
		time.Sleep(time.Millisecond)
	}
}

// The author of a change is the caller.
func TestRuleSet_Author(t *testing.T) {
	r := start(t)
	r.send(t, http.MethodPut, mine, setOf("mine", 5), "If-None-Match", "*", "Authorization", "Bearer "+tokenOne).want(t, http.StatusCreated)
	v, err := r.rules.Load(t.Context(), "mine")
	do(t, err)
	if v.Author != "token:tenant" {
		t.Errorf("the author is %s", v.Author)
	}
	var who admin.Who
	r.send(t, http.MethodGet, "/v1/whoami", "", "Authorization", "Bearer "+tokenOne).want(t, http.StatusOK).into(t, &who)
	if got, err := json.Marshal(who); err != nil || string(got) != `{"name":"token:tenant","roles":["check","read","write","support"],"ruleSets":["mine"]}` {
		t.Errorf("the identity is %s (%v)", got, err)
	}
}
