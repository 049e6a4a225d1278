package admin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// edit returns an edit that returns the same rule set always.
func edit(set *rules.Set) func(*rules.Set) (*rules.Set, error) {
	return func(*rules.Set) (*rules.Set, error) { return set, nil }
}

// An edit gets the rule set at the base revision.
func TestDirect_ChangeBase(t *testing.T) {
	source := memrules.New(memrules.Config{})
	d := admin.NewDirect(source, nil, "")
	var seen []string
	watch := func(to *rules.Set) func(*rules.Set) (*rules.Set, error) {
		return func(before *rules.Set) (*rules.Set, error) {
			seen = append(seen, capacities(before))
			return to, nil
		}
	}
	change := func(base int64, to *rules.Set) (admin.Changed, error) {
		t.Helper()
		return d.Change(t.Context(), "mine", by(base, ""), watch(to))
	}
	for i, c := range []struct {
		base          int64
		to            *rules.Set
		before, after string
		revision      int64
	}{
		{0, setOf(t, "mine", 1), "none", "[1]", 1},
		{1, setOf(t, "mine", 2), "[1]", "[2]", 2},
		{2, setOf(t, "mine", 2), "[2]", "[2]", 2}, // nothing to do
		{2, nil, "[2]", "none", 3},
		{0, setOf(t, "mine", 4), "none", "[4]", 4},
	} {
		done, err := change(c.base, c.to)
		if err != nil || done.Revision != c.revision || capacities(done.Before) != c.before || capacities(done.After) != c.after {
			t.Fatalf("change %d makes revision %d of %s from %s (%v)", i, done.Revision, capacities(done.After), capacities(done.Before), err)
		}
		if seen[i] != c.before {
			t.Errorf("change %d sees %s", i, seen[i])
		}
	}
	refused := errors.New("not so")
	if done, err := d.Change(t.Context(), "mine", by(4, ""), func(*rules.Set) (*rules.Set, error) { return nil, refused }); !errors.Is(err, refused) || done.Revision != 0 || done.After != nil {
		t.Errorf("a failed edit is %+v (%v)", done, err)
	}
	if _, err := d.Change(t.Context(), "mine", rules.Change{Base: 4}, edit(setOf(t, "mine", 4))); err == nil {
		t.Error("a change without an author and without differences was accepted")
	}
	if v, err := source.Load(t.Context(), "mine"); err != nil || v.Revision != 4 {
		t.Errorf("now it is %+v (%v)", v, err)
	}
}

// A change without differences must be based on the current revision.
func TestDirect_UnchangedConflict(t *testing.T) {
	source := memrules.New(memrules.Config{})
	d := admin.NewDirect(source, nil, "")
	for base, capacity := range []int64{1, 2} {
		_, err := source.Put(t.Context(), setOf(t, "mine", capacity), by(int64(base), ""))
		do(t, err)
	}
	_, err := d.Put(t.Context(), setOf(t, "mine", 1), by(1, ""))
	var conflict *admin.Conflict
	if !errors.As(err, &conflict) || conflict.Current != 2 || conflict.Author != "somebody" || len(conflict.Changes) != 1 {
		t.Errorf("the error is %v, %+v", err, conflict)
	}
	_, err = source.Delete(t.Context(), "mine", by(2, ""))
	do(t, err)
	if _, err = d.Put(t.Context(), setOf(t, "mine", 2), by(2, "")); !errors.As(err, &conflict) || conflict.Current != 0 || conflict.Author != "" || conflict.Changes[0].Change != rules.DiffRemoved {
		t.Errorf("the error is %v, %+v", err, conflict)
	}
}

// The times of rules are kept.
func TestDirect_RuleTimes(t *testing.T) {
	source := memrules.New(memrules.Config{})
	d := admin.NewDirect(source, nil, "")
	lie := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	lying := func(capacities ...int64) *rules.Set {
		var all []rules.Rule
		for r := range setOf(t, "mine", capacities...).Rules() {
			r.CreatedAt, r.UpdatedAt = lie, lie
			all = append(all, r)
		}
		set, err := rules.NewSet("mine", all...)
		do(t, err)
		return set
	}
	times := func() [][2]time.Time {
		v, err := source.Load(t.Context(), "mine")
		do(t, err)
		var all [][2]time.Time
		for r := range v.RuleSet.Rules() {
			all = append(all, [2]time.Time{r.CreatedAt, r.UpdatedAt})
		}
		return all
	}
	_, err := d.Put(t.Context(), lying(5, 6), by(0, ""))
	do(t, err)
	was := times()
	if time.Since(was[0][0]).Abs() > time.Hour || was[0][0] != was[0][1] {
		t.Fatalf("a new rule has the times %v", was[0])
	}
	for !time.Now().Truncate(time.Millisecond).After(was[0][1]) {
		time.Sleep(time.Millisecond)
	}
	_, err = d.Put(t.Context(), lying(7, 6), by(1, ""))
	do(t, err)
	is := times()
	if is[0][0] != was[0][0] || !is[0][1].After(was[0][1]) || is[1] != was[1] {
		t.Errorf("the times were %v, now they are %v", was, is)
	}
}

// Operations that need an engine are errors without one.
func TestDirect_NoEngine(t *testing.T) {
	for name, engine := range map[string]func() *fluxgate.Engine{"none": nil, "none yet": func() *fluxgate.Engine { return nil }} {
		d := admin.NewDirect(memrules.New(memrules.Config{}), engine, "")
		req := &fluxgate.Request{RuleSet: "mine"}
		_, explained := d.Explain(t.Context(), req)
		_, buckets := d.Buckets(t.Context(), req)
		for what, err := range map[string]error{"Explain": explained, "Buckets": buckets, "Reset": d.Reset(t.Context(), admin.Reset{RuleSet: "mine"})} {
			if !errors.Is(err, admin.ErrNoEngine) {
				t.Errorf("%s with an engine that is %s: %v", what, name, err)
			}
		}
	}
}
