package rulestest

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var keepChecks = []Check{
	{"a rule set is kept byte for byte", keptToTheByte},
	{"a rule set can be as long as a document may be and no longer", keptUpToTheBound},
	{"every read of a change has its author, comment and time", signed},
}

func keptToTheByte(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	contents := map[string]*rules.Set{"nothing": f.setOf(id), "every field": f.full(id)}
	for name, attributes := range awkward {
		r := rule(id, attributes)
		r.CreatedAt, r.UpdatedAt = time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
		r.When.Users = []string{"<&>", "\u2028", "👩‍👩‍👧"}
		contents["awkward "+name] = f.setOf(id, r)
	}
	other := f.other()
	for name, set := range contents {
		want := f.document(set)
		revision := f.put(set, f.base(id))
		for from, v := range map[string]*rules.Version{
			"Load": f.load(f.Source, id), "Load elsewhere": f.load(other, id), "Version": f.version(id, revision),
		} {
			if got := f.document(v.RuleSet); got != want {
				t.Errorf("%s: %s returns\n%s\nwant\n%s", name, from, got, want)
			}
		}
	}
}

func keptUpToTheBound(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	filled := func(n int) *rules.Set { return f.set(id, strings.Repeat("x", n)) }
	room := rules.MaxDocument - len(f.document(filled(0)))
	if _, err := f.Editor.Put(t.Context(), filled(room+1), by(0)); err == nil {
		t.Errorf("a document of %d bytes was put, at most %d can be", rules.MaxDocument+1, rules.MaxDocument)
	}
	if head, known := f.head(id); known {
		t.Fatalf("a refused document has left %+v", head)
	}
	f.put(filled(room), 0)
	if got := markOf(f.load(f.Source, id).RuleSet); got != strings.Repeat("x", room) {
		t.Errorf("a document of maximum length was put with %d bytes and loaded with %d", room, len(got))
	}
	// Leave only a small rule set: the subject may be shared.
	f.delete(id, 1)
}

func signed(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	// The server's clock may differ a little, and the time may be rounded.
	const off = 5 * time.Minute
	changes := []rules.Change{
		{Author: "Ada Lovelace <ada@example.com>", Comment: "twice as much\n\tfor all: “größer” 🙂"},
		{Author: strings.Repeat("ü", 128), Comment: strings.Repeat("x", 1024)},
		{Author: "no comment"},
		{Author: "the one who deletes", Comment: "no longer needed"},
	}
	for i, change := range changes {
		change.Base = int64(i)
		want := rules.Entry{RuleSetID: id, Author: change.Author, Comment: change.Comment}
		before := time.Now().Add(-off)
		var err error
		if want.Deleted = i == len(changes)-1; want.Deleted {
			want.Revision, err = f.Editor.Delete(t.Context(), id, change)
		} else {
			want.Revision, err = f.Editor.Put(t.Context(), f.set(id, change.Author), change)
		}
		if err != nil {
			t.Fatal(err)
		}
		at := f.version(id, want.Revision).At
		if at.Before(before) || at.After(time.Now().Add(off)) {
			t.Errorf("a change of %v is dated %v", before.Add(off), at)
		}
		want.At = at
		entries := map[string]rules.Entry{"Version": f.version(id, want.Revision).Entry, "History": f.history(id)[0]}
		if !want.Deleted {
			entries["Load"], entries["List"] = f.load(f.Source, id).Entry, f.list(10)[0]
		}
		for method, got := range entries {
			if line(got) != line(want) {
				t.Errorf("%s has\n%s\nfor\n%s", method, line(got), line(want))
			}
		}
	}
	// Later changes do not change the entries of earlier ones.
	for i, e := range f.history(id) {
		if want := changes[len(changes)-1-i]; e.Author != want.Author || e.Comment != want.Comment {
			t.Errorf("the history has %s for the change by %q because %q", line(e), want.Author, want.Comment)
		}
	}
}
