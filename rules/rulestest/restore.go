package rulestest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

var restoreChecks = []Check{
	{"restoring makes any revision current again, byte for byte", restoreAny},
	{"restoring works for deleted rule sets and not for deletions", restoreDeleted},
}

func restoreAny(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	documents := f.write7(id)
	current := int64(7)
	for i, want := range documents {
		if want == "" {
			continue
		}
		former := int64(i + 1)
		_, err := Restore(t.Context(), f.Editor, id, former, rules.Change{Base: current - 1, Author: "ada"})
		f.wantConflict(err, "Restore based on another revision", id, current-1, current)
		revision, err := Restore(t.Context(), f.Editor, id, former, rules.Change{Base: current, Author: "ada"})
		if err != nil {
			t.Fatalf("Restore of revision %d: %v", former, err)
		}
		current++
		v := f.load(f.Source, id)
		if v.Revision != revision || revision != current {
			t.Errorf("revision %d was restored as %d and is loaded as %d, want %d", former, revision, v.Revision, current)
		}
		if got := f.document(v.RuleSet); got != want {
			t.Errorf("revision %d was\n%s\nand was restored as\n%s", former, want, got)
		}
		if v.Author != "ada" || !strings.Contains(v.Comment, "restore") {
			t.Errorf("the restoration is %s", line(v.Entry))
		}
	}
}

func restoreDeleted(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	f.put(f.set(id, "former"), 0)
	want := f.document(f.load(f.Source, id).RuleSet)
	f.delete(id, 1)
	before := f.state(id)
	for _, missing := range []int64{2, 3, 0, -1} { // 2 is the deletion
		if _, err := Restore(t.Context(), f.Editor, id, missing, by(0)); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("Restore of revision %d, which has no rules: error %v, want ErrNotFound", missing, err)
		}
	}
	if after := f.state(id); after != before {
		t.Errorf("refused restorations have changed\n%sto\n%s", before, after)
	}
	revision, err := Restore(t.Context(), f.Editor, id, 1, by(0))
	if err != nil || revision != 3 {
		t.Fatalf("Restore of a deleted rule set: revision %d, error %v, want revision 3", revision, err)
	}
	if got := f.document(f.load(f.Source, id).RuleSet); got != want {
		t.Errorf("it was\n%s\nand was restored as\n%s", want, got)
	}
}

// Restore writes the rules of a former revision again. Programs use admin.Direct.
func Restore(ctx context.Context, e rules.Editor, id string, revision int64, change rules.Change) (int64, error) {
	former, err := e.Version(ctx, id, revision)
	if err != nil {
		return 0, err
	}
	if former.RuleSet == nil {
		return 0, fmt.Errorf("revision %d is a deletion: %w", revision, rules.ErrNotFound)
	}
	if change.Comment == "" {
		change.Comment = rules.RestoreComment(revision)
	}
	return e.Put(ctx, former.RuleSet, change)
}
