package rules_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Unchanged rules keep their times, changed and new ones get the current time.
func TestStamp_Times(t *testing.T) {
	created := time.Date(2024, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	updated := created.Add(time.Hour)
	lie := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
	now := time.Date(2026, 5, 6, 9, 8, 9, 123_999_999, time.FixedZone("somewhere", 7200))
	rounded := time.Date(2026, 5, 6, 7, 8, 9, 123_000_000, time.UTC)

	rule := func(id string, capacity int64, created, updated time.Time) rules.Rule {
		return rules.Rule{ID: id, Bands: []rules.Band{rules.PerMinute(capacity)}, CreatedAt: created, UpdatedAt: updated}
	}
	before := newSet(t, rule("same", 1, created, updated), rule("changed", 1, created, updated), rule("timeless", 1, time.Time{}, time.Time{}),
		rule("spelled", 1, created, updated), rule("gone", 1, created, updated))
	spelled := rule("spelled", 1, lie, lie)
	spelled.Action, spelled.Bands[0].RefillTokens = rules.ActionLimit, 1
	after := newSet(t, rule("same", 1, lie, lie), rule("changed", 2, lie, lie), rule("timeless", 1, lie, lie), spelled, rule("new", 1, lie, lie))

	stamped, err := rules.Stamp(before, after, now)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]time.Time{
		"same": {created, updated}, "changed": {created, rounded}, "timeless": {}, "spelled": {created, updated}, "new": {rounded, rounded},
	}
	for r := range stamped.Rules() {
		if got := [2]time.Time{r.CreatedAt, r.UpdatedAt}; got != want[r.ID] {
			t.Errorf("the rule %q has the times %v, want %v", r.ID, got, want[r.ID])
		}
		delete(want, r.ID)
	}
	if len(want) > 0 {
		t.Errorf("rules are lost: %v", want)
	}
	for r := range after.Rules() {
		if !r.CreatedAt.Equal(lie) {
			t.Errorf("the caller's rule set has changed: %+v", r)
		}
	}
	again, err := rules.Stamp(stamped, after, now.Add(time.Hour))
	if err != nil || document(t, again) != document(t, stamped) {
		t.Errorf("stamped once more it is\n%s\nnot\n%s (%v)", document(t, again), document(t, stamped), err)
	}
}

func document(t testing.TB, set *rules.Set) string {
	t.Helper()
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Stamp changes nothing but times.
func TestStamp_KeepsFields(t *testing.T) {
	const everything = `{"id": "api", "costTables": {"usd": {"*": {"input": 2, "output": 3}}}, "rules": [
	{"id": "all", "ruleSetId": "api", "paths": ["/a/*", "/b/**"], "methods": ["GET", "POST"], "limitScope": "COMPOSITE",
	 "compositeKeyFields": ["ip", "header:X-T"], "cost": "usd", "priority": 3, "group": "g", "action": "limit", "enabled": false,
	 "onLimitExceed": "WAIT_FOR_REFILL", "mode": "shadow", "onFailure": "closed", "onMissingIdentity": "refuse",
	 "when": {"hosts": ["a.example.com"], "excludePaths": ["/a/b"], "headers": {"X-A": ["1"]}, "attributes": {"tier": ["*"]},
	          "ips": ["10.0.0.0/8"], "users": ["u"], "apiKeys": ["k"], "descriptor": [{"key": "a", "value": "b*", "except": ["bc"]}]},
	 "bands": [{"label": "x", "capacity": 5, "refillTokens": 2, "refill": "1500ms", "kind": "token-bucket"}, {"capacity": 1, "refillSeconds": 1}],
	 "attributes": {"n": 1.50, "big": 12345678901234567890123, "tree": {"a": [null, {"b": -0}]}}},
	{"id": "deny", "action": "deny", "priority": 9}]}`
	set, err := rules.Parse([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]*rules.Set{"that is new": nil, "that stays": set, "that changes": newSet(t, rules.Rule{ID: "all", Action: rules.ActionDeny})} {
		stamped, err := rules.Stamp(before, set, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Collect(stamped.Rules())
		for i := range all {
			all[i].CreatedAt, all[i].UpdatedAt = time.Time{}, time.Time{}
		}
		if stamped, err = stamped.WithRules(all...); err != nil {
			t.Fatal(err)
		}
		if got, want := document(t, stamped), document(t, set); got != want {
			t.Errorf("a rule set %s became\n%s\nwant\n%s", name, got, want)
		}
	}
}

// A nil rule set is an error.
func TestStamp_NoRuleSet(t *testing.T) {
	if set, err := rules.Stamp(newSet(t), nil, time.Now()); err == nil || set != nil {
		t.Errorf("nil became %v", set)
	}
}
