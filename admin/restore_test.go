package admin_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// A restored rule set equals the former one byte for byte.
func TestRestore_Exact(t *testing.T) {
	each(t, func(t *testing.T, _ *desk, op admin.Operator) {
		text := func(revision int64) string {
			t.Helper()
			v, err := op.Version(t.Context(), "mine", revision)
			do(t, err)
			b, err := json.Marshal(v.RuleSet)
			do(t, err)
			return string(b)
		}
		_, err := op.Put(t.Context(), setOf(t, "mine", 5, 6), by(0, ""))
		do(t, err)
		_, err = op.Put(t.Context(), setOf(t, "mine", 50), by(1, ""))
		do(t, err)
		_, err = op.Delete(t.Context(), "mine", by(2, ""))
		do(t, err)
		revision, err := op.Restore(t.Context(), "mine", 1, by(0, ""))
		do(t, err)
		if got, want := text(revision), text(1); revision != 4 || got != want {
			t.Errorf("revision %d is %s, want %s", revision, got, want)
		}
		if v, err := op.Version(t.Context(), "mine", revision); err != nil || v.Comment != "restore revision 1" {
			t.Errorf("%+v %v", v, err)
		}
		var conflict *admin.Conflict
		if _, err := op.Restore(t.Context(), "mine", 2, by(1, "")); !errors.As(err, &conflict) || conflict.Current != 4 {
			t.Errorf("restoring on another base: %v", err)
		}
		for _, none := range []int64{3, 99} { // a deletion and an unknown revision
			if _, err := op.Restore(t.Context(), "mine", none, by(4, "")); !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("restoring revision %d: %v", none, err)
			}
		}
	})
}

// Two revisions are compared.
func TestCompare_Revisions(t *testing.T) {
	each(t, func(t *testing.T, _ *desk, op admin.Operator) {
		for i, capacity := range []int64{5, 6, 7} {
			_, err := op.Put(t.Context(), setOf(t, "mine", capacity), by(int64(i), ""))
			do(t, err)
		}
		for _, c := range []struct {
			from, to         int64
			wantFrom, wantTo int64
			field            string
		}{{0, 0, 2, 3, "6 7"}, {1, 0, 1, 3, "5 7"}, {0, 2, 1, 2, "5 6"}, {3, 1, 3, 1, "7 5"}} {
			d, err := admin.Compare(t.Context(), op, "mine", c.from, c.to)
			do(t, err)
			if f := d.Changes[0].Fields[0]; d.From != c.wantFrom || d.To != c.wantTo || string(f.Before)+" "+string(f.After) != c.field {
				t.Errorf("from %d to %d: %+v", c.from, c.to, d)
			}
		}
		if d, err := admin.Compare(t.Context(), op, "mine", 0, 1); err != nil || d.From != 0 || d.Changes[0].Change != rules.DiffAdded {
			t.Errorf("%+v %v", d, err)
		}
		for _, pair := range [][2]int64{{9, 1}, {1, 9}, {0, 9}} {
			if _, err := admin.Compare(t.Context(), op, "mine", pair[0], pair[1]); !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("%v: %v", pair, err)
			}
		}
		if _, err := admin.Compare(t.Context(), op, "none", 0, 0); !errors.Is(err, rules.ErrNotFound) {
			t.Error(err)
		}
	})
}
