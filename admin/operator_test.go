package admin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// each runs a test with each operator: directly, and over the API.
func each(t *testing.T, test func(t *testing.T, d *desk, op admin.Operator)) {
	t.Helper()
	t.Run("straight", func(t *testing.T) {
		d := newDesk(t)
		test(t, d, d.direct)
	})
	t.Run("over the API", func(t *testing.T) {
		d := newDesk(t)
		test(t, d, d.client)
	})
}

// An operator edits rules.
func TestOperator_Edit(t *testing.T) {
	each(t, func(t *testing.T, _ *desk, op admin.Operator) {
		ctx := t.Context()
		revision, err := op.Put(ctx, setOf(t, "mine", 5), by(0, "the first"))
		if err != nil || revision != 1 {
			t.Fatalf("made as revision %d (%v)", revision, err)
		}
		v, err := op.Load(ctx, "mine")
		do(t, err)
		if v.Revision != 1 || v.RuleSetID != "mine" || v.Comment != "the first" || v.Author == "" || v.At.IsZero() || capacities(v.RuleSet) != "[5]" {
			t.Errorf("loaded as %+v", v)
		}
		revision, err = op.Put(ctx, setOf(t, "mine", 6, 7), by(1, ""))
		if err != nil || revision != 2 {
			t.Fatalf("changed to revision %d (%v)", revision, err)
		}
		revision, err = op.Put(ctx, setOf(t, "mine", 6, 7), by(2, "nothing new"))
		if err != nil || revision != 2 {
			t.Errorf("a Put without changes makes revision %d (%v)", revision, err)
		}
		revision, err = op.Delete(ctx, "mine", by(2, "no more"))
		if err != nil || revision != 3 {
			t.Fatalf("deleted by revision %d (%v)", revision, err)
		}
		if _, err := op.Load(ctx, "mine"); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("a deleted rule set is loaded: %v", err)
		}
		revision, err = op.Restore(ctx, "mine", 1, by(0, ""))
		if err != nil || revision != 4 {
			t.Fatalf("restored as revision %d (%v)", revision, err)
		}

		heads, err := op.Revisions(ctx, []string{"mine", "yours"})
		if err != nil || len(heads) != 1 || heads["mine"].Current() != 4 {
			t.Errorf("the heads are %+v (%v)", heads, err)
		}
		list, err := op.List(ctx, "", 10)
		if err != nil || len(list) != 1 || list[0].RuleSetID != "mine" || list[0].Revision != 4 {
			t.Errorf("the list is %+v (%v)", list, err)
		}
		history, err := op.History(ctx, "mine", 4, 2)
		if err != nil || len(history) != 2 || history[0].Revision != 3 || !history[0].Deleted || history[0].Comment != "no more" || history[1].Revision != 2 {
			t.Errorf("the history is %+v (%v)", history, err)
		}
		gone, err := op.Version(ctx, "mine", 3)
		if err != nil || !gone.Deleted || gone.RuleSet != nil {
			t.Errorf("a deletion is %+v (%v)", gone, err)
		}
		if former, err := op.Version(ctx, "mine", 2); err != nil || capacities(former.RuleSet) != "[6 7]" {
			t.Errorf("a former revision is %+v (%v)", former, err)
		}
		if _, err := op.Version(ctx, "mine", 9); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("an unknown revision: %v", err)
		}
		if none, err := op.History(ctx, "yours", 0, 0); err != nil || len(none) != 0 {
			t.Errorf("the history of an unknown rule set is %+v (%v)", none, err)
		}
	})
}

// An operator gets the changes in a conflict.
func TestOperator_Conflict(t *testing.T) {
	each(t, func(t *testing.T, d *desk, op admin.Operator) {
		ctx := t.Context()
		_, err := op.Put(ctx, setOf(t, "mine", 5, 6), by(0, ""))
		do(t, err)
		_, err = d.rules.Put(ctx, setOf(t, "mine", 50, 6), rules.Change{Base: 1, Author: "the other", Comment: "why not"})
		do(t, err)
		_, err = op.Put(ctx, setOf(t, "mine", 5, 60), by(1, ""))
		var conflict *admin.Conflict
		var plain *rules.ConflictError
		if !errors.As(err, &conflict) || !errors.As(err, &plain) {
			t.Fatalf("the error is %T: %v", err, err)
		}
		if want := (rules.ConflictError{RuleSetID: "mine", Base: 1, Current: 2}); *plain != want || conflict.ConflictError != want {
			t.Errorf("the conflict is %+v and %+v", *plain, conflict)
		}
		if conflict.Author != "the other" || conflict.Comment != "why not" || time.Since(conflict.At).Abs() > time.Hour {
			t.Errorf("the other is %+v", conflict)
		}
		if got, want := text(t, conflict.Changes), `[{"rule":"mine-0","change":"changed","fields":[{"path":"bands[day].capacity","before":5,"after":50}]}]`; got != want {
			t.Errorf("the other has changed %s", got)
		}
		if !strings.Contains(err.Error(), "the other") || !strings.Contains(err.Error(), "revision 2") {
			t.Errorf("the error is %q", err)
		}
		for name, change := range map[string]func() (int64, error){
			"creating an existing one": func() (int64, error) { return op.Put(ctx, setOf(t, "mine", 1), by(0, "")) },
			"deleting an old revision": func() (int64, error) { return op.Delete(ctx, "mine", by(1, "")) },
			"deleting without a base":  func() (int64, error) { return op.Delete(ctx, "mine", by(0, "")) },
			"changing an unknown one":  func() (int64, error) { return op.Put(ctx, setOf(t, "yours", 1), by(7, "")) },
			"deleting an unknown one":  func() (int64, error) { return op.Delete(ctx, "yours", by(7, "")) },
		} {
			if _, err := change(); !errors.As(err, &conflict) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := op.Delete(ctx, "yours", by(0, "")); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("deleting an unknown rule set without a base: %v", err)
		}
		// An unknown base cannot be compared with.
		if _, err := op.Put(ctx, setOf(t, "mine", 1), by(77, "")); !errors.As(err, &conflict) || conflict.Changes != nil || conflict.Author != "the other" {
			t.Errorf("an unknown base: %v, %+v", err, conflict)
		}
		if v, err := op.Load(ctx, "mine"); err != nil || v.Revision != 2 || capacities(v.RuleSet) != "[50 6]" {
			t.Errorf("now it is %+v (%v)", v, err)
		}
	})
}

// An operator sees and resets buckets.
func TestOperator_Buckets(t *testing.T) {
	each(t, func(t *testing.T, d *desk, op admin.Operator) {
		ctx := t.Context()
		_, err := op.Put(ctx, setOf(t, "mine", 5, 50), by(0, ""))
		do(t, err)
		req := &fluxgate.Request{RuleSet: "mine", UserID: "ann", Cost: 2}
		_, err = d.engine.Check(ctx, req)
		do(t, err)
		left := func() string {
			t.Helper()
			found, err := d.direct.Buckets(ctx, req)
			do(t, err)
			all := ""
			for _, b := range found {
				all += fmt.Sprintf("%s %d/%d ", b.Rule, b.Bands[0].Remaining, b.Bands[0].Limit)
			}
			return all
		}
		if got := left(); got != "mine-0 3/5 mine-1 48/50 " {
			t.Errorf("left is %s", got)
		}
		e, err := op.Explain(ctx, req)
		do(t, err)
		if e.RuleSet != "mine" || len(e.Rules) != 2 || !e.Rules[0].Applies || fmt.Sprint(e.Rules[0].Identity) != "[userId]" || e.Decision.Rule != "mine-0" || e.Decision.Remaining != 3 {
			t.Errorf("the explanation is %+v, %+v", e, e.Decision)
		}
		do(t, op.Reset(ctx, admin.Reset{RuleSet: "mine", Rule: "mine-0", Key: e.Rules[0].Key}))
		if got := left(); got != "mine-0 5/5 mine-1 48/50 " {
			t.Errorf("after a reset by key there is %s", got)
		}
		do(t, op.Reset(ctx, admin.Reset{RuleSet: "mine", Rule: "mine-1", Request: &admin.Request{UserID: "ann"}}))
		if got := left(); got != "mine-0 5/5 mine-1 50/50 " {
			t.Errorf("after a reset by request there is %s", got)
		}
		if named, err := d.direct.Buckets(ctx, req, "mine-1"); err != nil || len(named) != 1 || named[0].Rule != "mine-1" || named[0].Time.IsZero() {
			t.Errorf("a rule that is named has %+v (%v)", named, err)
		}
		if _, err := op.Explain(ctx, &fluxgate.Request{RuleSet: "none"}); admin.ProblemOf(err).Status != 404 {
			t.Errorf("an unknown rule set: %v", err)
		}
	})
}

// An ambiguous reset is rejected.
func TestOperator_UnclearReset(t *testing.T) {
	each(t, func(t *testing.T, _ *desk, op admin.Operator) {
		_, err := op.Put(t.Context(), setOf(t, "mine", 5), by(0, ""))
		do(t, err)
		const key = "00112233445566778899aabbccddeeff0011223344556677"
		ann := &admin.Request{UserID: "ann"}
		for name, c := range map[string]struct {
			what   admin.Reset
			status int
		}{
			"an invalid id":                 {admin.Reset{RuleSet: "my set"}, 422},
			"an unknown rule set":           {admin.Reset{RuleSet: "none", All: true}, 404},
			"an unknown rule set, by key":   {admin.Reset{RuleSet: "none", Rule: "r", Key: key}, 404},
			"an unknown rule":               {admin.Reset{RuleSet: "mine", Rule: "none", All: true}, 404},
			"an unknown rule, by key":       {admin.Reset{RuleSet: "mine", Rule: "none", Key: key}, 404},
			"an unknown rule, by request":   {admin.Reset{RuleSet: "mine", Rule: "none", Request: ann}, 404},
			"an invalid rule":               {admin.Reset{RuleSet: "mine", Rule: "a b"}, 422},
			"a key without a rule":          {admin.Reset{RuleSet: "mine", Key: key}, 422},
			"a request without a rule":      {admin.Reset{RuleSet: "mine", Request: ann}, 422},
			"a key and a request":           {admin.Reset{RuleSet: "mine", Rule: "mine-0", Key: key, Request: ann}, 422},
			"no caller, and not all":        {admin.Reset{RuleSet: "mine", Rule: "mine-0"}, 422},
			"one caller, and all":           {admin.Reset{RuleSet: "mine", Rule: "mine-0", Request: ann, All: true}, 422},
			"a caller without an identity":  {admin.Reset{RuleSet: "mine", Rule: "mine-0", Request: &admin.Request{IP: "192.0.2.1"}}, 422},
			"a short key":                   {admin.Reset{RuleSet: "mine", Rule: "mine-0", Key: "0011"}, 422},
			"a key of other digits":         {admin.Reset{RuleSet: "mine", Rule: "mine-0", Key: strings.Repeat("z", 48)}, 422},
			"a request of another rule set": {admin.Reset{RuleSet: "mine", Rule: "mine-0", Request: &admin.Request{RuleSet: "yours"}}, 422},
			"an invalid address":            {admin.Reset{RuleSet: "mine", Rule: "mine-0", Request: &admin.Request{IP: "nowhere"}}, 422},
		} {
			err := op.Reset(t.Context(), c.what)
			if p := admin.ProblemOf(err); p == nil || p.Status != c.status {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
