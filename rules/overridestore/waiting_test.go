package overridestore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/overridestore"
)

// Overrides wait for a missing rule set, which is named, and for a missing rule. After 35 days they are
// deleted, and those of others stay.
func TestStore_Waiting(t *testing.T) {
	now := time.Now()
	memory := &overridestore.Memory{Clock: func() time.Time { return now }}
	f := kinds["memory"](t)
	f.shared = memory
	f.putRules(0, rule, "other")
	one := f.server()
	other := of("eve", 2_000)
	other.RuleID = "other"
	ended := of("zoe", 2_000)
	ended.Until = now.Add(time.Hour)
	one.put(of("ada", 2_000), of("bob", 3_000), other, ended)
	later := func(days int) {
		now = now.Add(time.Duration(days) * 24 * time.Hour)
		one.sync()
		one.sync()
	}
	const all = "ada 2, bob 3, eve 2, zoe 2"
	remove := func(revision int64) {
		t.Helper()
		if _, err := f.rules.Delete(t.Context(), set, rules.Change{Base: revision, Author: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	remove(1)
	later(0)
	one.want("without the rule set", all)
	one.wantProblem("rule set api is missing")
	later(34)
	one.want("after 34 days", all)
	f.putRules(0, rule, "other") // it is back
	later(0)
	one.wantProblem("")
	later(2)
	one.want("after it was back", all)

	f.putRules(3, rule) // one rule is gone
	later(0)
	one.wantProblem("") // the rules in effect name it
	later(34)
	one.want("34 days later", all)
	later(2)
	one.want("36 days later", "ada 2, bob 3, zoe 2")
	if !strings.Contains(one.logged.String(), "missing=api/other overrides=1") {
		t.Errorf("the log is %s", one.logged)
	}

	remove(4)
	later(0)
	later(36)
	one.want("36 days after the rule set", "")
	one.wantProblem("")
	if !strings.Contains(one.logged.String(), "missing=api overrides=3") {
		t.Errorf("the log is %s", one.logged)
	}
	later(36)
	f.putRules(0, rule, "other")
	one.put(of("max", 5_000))
	later(36)
	one.want("of a rule set that is there", "max 5")
	state := fluxgate.Must(memory.OverrideState(t.Context(), rules.WaitingRules{}))
	if len(state.Waiting) != 0 {
		t.Errorf("missing are %v", state.Waiting)
	}
}

// Overrides that have ended wait for nothing.
func TestStore_WaitingEnded(t *testing.T) {
	now := time.Now()
	f := kinds["memory"](t)
	f.shared = &overridestore.Memory{Clock: func() time.Time { return now }}
	one := f.server()
	o := of("ada", 2_000)
	o.Until = now.Add(time.Hour)
	one.put(o)
	one.sync()
	one.wantProblem("is missing")
	now = now.Add(2 * time.Hour)
	one.sync()
	one.sync()
	one.wantProblem("")
}
