package rulestest

import (
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

var changeChecks = []Check{
	{"a change based on revision 0 needs a rule set that does not exist", basedOnNothing},
	{"a change based on another revision is a conflict and changes nothing", conflicts},
	{"a change without an author or with control characters is rejected", unsigned},
	{"a change is seen by every editor of the data when it is made", seenByAll},
}

var deleteChecks = []Check{
	{"a deleted rule set is known as deleted and its history stays", deleted},
	{"a deleted rule set can be created again under a new revision", deletedComesBack},
	{"a rule set that does not exist cannot be deleted", deletingNothing},
}

func basedOnNothing(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	if revision := f.put(f.set(id, "a"), 0); revision != 1 {
		t.Errorf("the first revision is %d, want 1", revision)
	}
	before := f.state(id)
	_, err := f.Editor.Put(t.Context(), f.set(id, "b"), by(0))
	f.wantConflict(err, "Put based on revision 0 of a rule set at revision 1", id, 0, 1)
	if after := f.state(id); after != before {
		t.Errorf("a refused change has changed\n%sto\n%s", before, after)
	}
}

func conflicts(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	for i := range int64(3) {
		if revision := f.put(f.set(id, "a"+string(rune('0'+i))), i); revision != i+1 {
			t.Fatalf("change %d got revision %d", i+1, revision)
		}
	}
	before := f.state(id)
	for _, base := range []int64{0, 1, 2, 4, 1 << 60} {
		_, err := f.Editor.Put(t.Context(), f.set(id, "b"), by(base))
		f.wantConflict(err, "Put based on another revision", id, base, 3)
		_, err = f.Editor.Delete(t.Context(), id, by(base))
		f.wantConflict(err, "Delete based on another revision", id, base, 3)
	}
	if after := f.state(id); after != before {
		t.Errorf("refused changes have changed\n%sto\n%s", before, after)
	}
	_, err := f.Editor.Put(t.Context(), f.set(f.id("never"), "b"), by(1))
	f.wantConflict(err, "Put based on revision 1 of an unknown rule set", f.id("never"), 1, 0)
	if head, known := f.head(f.id("never")); known {
		t.Errorf("a refused change has left %+v", head)
	}
}

func unsigned(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id, fresh := f.id("set"), f.id("fresh")
	f.put(f.set(id, "a"), 0)
	before := f.state(id)
	for name, bad := range map[string]rules.Change{
		"without an author":                      {},
		"by a blank author":                      {Author: " \u3000"},
		"by an author of two lines":              {Author: "ada\nroot"},
		"by an author with an escape":            {Author: "ada\x1b[2J"},
		"by an author with a direction override": {Author: "ada\u202e"},
		"by an author that is not UTF-8":         {Author: "ada\xff"},
		"by an author of 257 bytes":              {Author: strings.Repeat("a", 257)},
		"with a comment of 1,025 bytes":          {Author: "ada", Comment: strings.Repeat("a", 1025)},
		"with a comment with a zero":             {Author: "ada", Comment: "a\x00"},
		"based on a negative revision":           {Author: "ada", Base: -1},
		"with a comment that is not UTF-8":       {Author: "ada", Comment: "\xc3\x28"},
	} {
		refused := func(did string, err error) {
			if err == nil {
				t.Errorf("%s %s was made", did, name)
			}
		}
		_, err := f.Editor.Put(t.Context(), f.set(fresh, "b"), bad)
		refused("a first Put", err)
		if bad.Base == 0 {
			bad.Base = 1
		}
		_, err = f.Editor.Put(t.Context(), f.set(id, "b"), bad)
		refused("a Put", err)
		_, err = f.Editor.Delete(t.Context(), id, bad)
		refused("a Delete", err)
	}
	if after := f.state(id); after != before {
		t.Errorf("refused changes have changed\n%sto\n%s", before, after)
	}
	if head, known := f.head(fresh); known {
		t.Errorf("refused changes have left %+v", head)
	}
}

func seenByAll(t testing.TB, s Subject) {
	f := newEditing(t, s)
	if f.Open == nil {
		t.Skip("the data has no other editor")
	}
	id, here := f.id("set"), f.Editor
	there := f.Open(t)
	for range 3 {
		base := f.base(id)
		revision := f.put(f.set(id, "by one"), base)
		if v := f.load(there, id); v.Revision != revision || markOf(v.RuleSet) != "by one" {
			t.Fatalf("the other editor loads revision %d with %q, want %d by one", v.Revision, markOf(v.RuleSet), revision)
		}
		_, err := there.Put(t.Context(), f.set(id, "x"), by(base))
		f.wantConflict(err, "Put by the other editor, based on the former revision", id, base, revision)

		f.Editor, f.Source = there, there
		f.delete(id, f.put(f.set(id, "by the other"), revision))
		seen := f.state(id)
		f.Editor, f.Source = here, here
		if got := f.state(id); got != seen {
			t.Fatalf("one editor sees\n%sand the other\n%s", seen, got)
		}
		_, err = here.Put(t.Context(), f.set(id, "x"), by(revision))
		f.wantConflict(err, "Put after a deletion by the other editor", id, revision, 0)
	}
}

func deleted(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	f.put(f.set(id, "a"), 0)
	f.put(f.set(id, "b"), 1)
	former := f.document(f.version(id, 2).RuleSet)
	if revision := f.delete(id, 2); revision != 3 {
		t.Errorf("a deletion after revision 2 is revision %d, want 3", revision)
	}
	if head, known := f.head(id); !known || head.Revision != 3 || !head.Deleted {
		t.Errorf("Revisions says %+v (known %t) of a deleted rule set, want revision 3, deleted", head, known)
	}
	_, err := f.Editor.Load(t.Context(), id)
	f.wantNotFound(err, "Load of a deleted rule set")
	for _, e := range f.list(10) {
		t.Errorf("List has %s", line(e))
	}
	history := f.history(id)
	if len(history) != 3 || !history[0].Deleted || history[1].Deleted || history[2].Deleted {
		t.Errorf("the history of two changes and a deletion is %+v", history)
	}
	if got := f.document(f.version(id, 2).RuleSet); got != former {
		t.Errorf("revision 2 was\n%s\nand after the deletion it is\n%s", former, got)
	}
}

func deletedComesBack(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	want := int64(0)
	for range 3 {
		if got := f.put(f.set(id, "a"), 0); got != want+1 {
			t.Fatalf("after revision %d a rule set was created again at %d", want, got)
		}
		if got := f.delete(id, want+1); got != want+2 {
			t.Fatalf("after revision %d a deletion is revision %d", want+1, got)
		}
		want += 2
		before := f.state(id)
		for _, base := range []int64{1, want - 1, want, want + 1} {
			_, err := f.Editor.Put(t.Context(), f.set(id, "b"), by(base))
			f.wantConflict(err, "Put based on a revision of a deleted rule set", id, base, 0)
		}
		if after := f.state(id); after != before {
			t.Errorf("refused changes have changed\n%sto\n%s", before, after)
		}
	}
	f.put(f.set(id, "last"), 0)
	if got := len(f.history(id)); got != 7 {
		t.Errorf("seven changes, three of them deletions, have left %d revisions", got)
	}
}

func deletingNothing(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	for range 2 {
		before := f.state(id)
		_, err := f.Editor.Delete(t.Context(), id, by(0))
		f.wantNotFound(err, "Delete of an unknown rule set")
		_, err = f.Editor.Delete(t.Context(), id, by(7))
		f.wantConflict(err, "Delete of revision 7 of an unknown rule set", id, 7, 0)
		if after := f.state(id); after != before {
			t.Errorf("refused deletions have changed\n%sto\n%s", before, after)
		}
		// Again, with a deleted rule set.
		f.delete(id, f.put(f.set(id, "a"), 0))
	}
}
