package rulestest

import (
	"errors"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// These checks are of a source that has both rule sets and overrides.
var overrideDeleteChecks = []Check{
	{"the overrides of a rule set are deleted with it, and do not come back", overridesDeleted},
	{"overrides of a deleted rule set cannot be written", overridesOfDeletedSet},
	{"overrides that are written while a rule set is deleted and put do not survive its deletion", overridesWhileDeleted},
}

// editor returns the source of the overrides as an editor of rule sets.
func (f *overriding) editor() *fixture {
	f.Helper()
	editor, ok := f.Overrides.(rules.Editor)
	if !ok {
		f.Skip("the source has no rule sets")
	}
	s := f.Subject
	s.Editor, s.Open = editor, nil
	return newEditing(f, s)
}

// wantNone checks that nothing of the overrides can be read.
func (f *overriding) wantNone(when string, readers ...*follower) {
	f.Helper()
	if n := len(f.listed()); n != 0 {
		f.Fatalf("%s the list has %d overrides", when, n)
	}
	for _, r := range readers {
		if f.wantState(r); len(r.state) != 0 {
			f.Fatalf("%s a reader of changes knows %d overrides", when, len(r.state))
		}
	}
}

func overridesDeleted(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	e := f.editor()
	neighbour := *f
	neighbour.set = f.set + "-2"
	other := e.put(e.set(neighbour.set, "1"), 0)
	neighbour.put(neighbour.of("stays", 2_000))
	first := e.put(e.set(f.set, "1"), 0)

	all := f.users("user", 40, 2_000)
	f.put(all...)
	f.put(deletions(all[:3])...)
	reader, slow, late := f.follower(0), f.follower(7), f.follower(0)
	f.wantState(reader)
	f.wantState(slow)
	last := f.revision()
	gone := e.delete(f.set, first)
	f.wantNone("after the deletion of its rule set", reader, slow, late)
	if _, err := f.Overrides.Override(f.Context(), f.set, all[5].ID()); !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("an override of a deleted rule set: %v, want ErrNotFound", err)
	}
	if now := f.revision(); now <= last {
		t.Errorf("the deletion of 37 overrides has left their revision at %d, which was %d", now, last)
	}

	put := e.put(e.set(f.set, "2"), 0)
	if put <= gone {
		t.Fatalf("a rule set that was put again is at revision %d, after %d", put, gone)
	}
	f.wantNone("after it was put again", reader, slow, f.follower(0))
	deleted := e.delete(f.set, put)
	if _, err := Restore(f.Context(), e.Editor, f.set, first, rules.Change{Author: "rulestest"}); err != nil {
		t.Fatalf("restoring revision %d after revision %d: %v", first, deleted, err)
	}
	f.wantNone("after a revision of before was restored", reader, slow, f.follower(0))

	added := f.of("new", 3_000)
	f.put(added)
	if got := f.get(added.ID()); got.Revision <= last {
		t.Errorf("a new override has revision %d, and one of before had %d", got.Revision, last)
	}
	for _, r := range []*follower{reader, slow, late, f.follower(0)} {
		if f.wantState(r); len(r.state) != 1 {
			t.Errorf("a reader knows %d overrides, want the new one", len(r.state))
		}
	}
	if n := len(neighbour.listed()); n != 1 {
		t.Errorf("another rule set, at revision %d, has %d overrides, want 1", other, n)
	}
	neighbour.wantState(neighbour.follower(0))
}

func overridesOfDeletedSet(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	e := f.editor()
	o := f.of("user", 2_000)
	gone := e.delete(f.set, e.put(e.set(f.set, "1"), 0))
	for _, change := range []rules.Override{o, based(o, -1), deletion(o)} {
		if _, err := f.Overrides.PutOverrides(f.Context(), f.set, []rules.Override{change}); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("a change of an override of a deleted rule set: %v, want ErrNotFound", err)
		}
	}
	f.wantNone("after the refused changes", f.follower(0))
	if put := e.put(e.set(f.set, "2"), 0); put != gone+1 {
		t.Errorf("the rule set is put again at revision %d, want %d", put, gone+1)
	}
	f.wantNone("after the rule set was put again", f.follower(0))
	f.put(o)
	f.wantState(f.follower(0))
}

// overridesWhileDeleted writes overrides of a rule set that one editor deletes and puts again and
// again.
func overridesWhileDeleted(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	e := f.editor()
	revision := e.put(e.set(f.set, "1"), 0)
	editors := []rules.OverrideEditor{f.Overrides, f.other()}
	reader := f.follower(7)
	f.put(f.users("user", 5, 2_000)...)
	stop, calls := make(chan struct{}), make(chan struct{})
	var writing sync.WaitGroup
	for i := range editors {
		writing.Go(func() {
			for {
				_, err := editors[i].PutOverrides(f.Context(), f.set, f.users("user", 5, 2_000))
				if err != nil && !errors.Is(err, rules.ErrNotFound) {
					t.Errorf("writing: %v", err)
				}
				select {
				case calls <- struct{}{}:
				case <-stop:
					return
				}
			}
		})
	}
	end := sync.OnceFunc(func() { close(stop); writing.Wait() })
	defer end()
	more := func() { // at least one whole call of a writer
		for range 2 * len(editors) {
			<-calls
		}
	}
	remove := func() {
		e.delete(f.set, revision)
		more()
		f.wantNone("after the deletion", reader)
	}
	for range max(3, f.Changes/50) {
		remove()
		revision = e.put(e.set(f.set, "1"), 0)
		more()
		if err := reader.follow(f.Context()); err != nil {
			t.Fatalf("reading changes: %v", err)
		}
	}
	remove()
	end()
	e.put(e.set(f.set, "1"), 0)
	f.wantNone("after the rule set was put again", reader, f.follower(0))
}
