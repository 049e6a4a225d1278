package rulestest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// fixture is a subject with helpers for checks.
type fixture struct {
	testing.TB
	Subject        // Source is always set
	prefix  string // of every id
}

func newFixture(t testing.TB, s Subject) *fixture {
	t.Helper()
	if s.Editor != nil {
		s.Source = s.Editor
	} else if s.Source == nil || s.Write == nil || s.Remove == nil {
		t.Fatal("a Subject needs an Editor, or a Source with Write and Remove")
	}
	if s.History != 0 && s.History < 20 {
		t.Fatalf("a history of %d is too short for the suite, which needs 20", s.History)
	}
	if s.HistoryBytes != 0 && (s.HistoryBytes < 64<<10 || s.HistoryBytes > 4<<20) {
		t.Fatalf("a history of %d bytes cannot be tested, the suite needs 64 KiB to 4 MiB", s.HistoryBytes)
	}
	s.Writers, s.Changes = cmp.Or(s.Writers, 50), cmp.Or(s.Changes, 1_000)
	s.Patience = cmp.Or(s.Patience, 30*time.Second)
	return &fixture{TB: t, Subject: s, prefix: "rulestest-" + rand.Text()[:12] + "-"}
}

// newEditing returns a fixture for checks of editors.
func newEditing(t testing.TB, s Subject) *fixture {
	t.Helper()
	if s.Editor == nil {
		t.Skip("the source cannot be written")
	}
	return newFixture(t, s)
}

// other returns another handle on the same data, if there is one.
func (f *fixture) other() rules.Editor {
	f.Helper()
	if f.Open == nil {
		return f.Editor
	}
	return f.Open(f)
}

// id returns an unused id.
func (f *fixture) id(name string) string { return f.prefix + name }

// set returns a rule set with one rule, whose id is that of the set, and with a mark
// to distinguish versions.
func (f *fixture) set(id, mark string) *rules.Set {
	f.Helper()
	return f.setOf(id, rule(id, map[string]any{"mark": mark}))
}

func (f *fixture) setOf(id string, list ...rules.Rule) *rules.Set {
	f.Helper()
	set, err := rules.NewSet(id, list...)
	if err != nil {
		f.Fatal(err)
	}
	return set
}

func rule(id string, attributes map[string]any) rules.Rule {
	return rules.Rule{ID: id, Bands: []rules.Band{rules.PerMinute(100)}, Attributes: attributes}
}

// markOf returns the mark of a rule set made by set.
func markOf(set *rules.Set) string {
	for r := range set.Rules() {
		mark, _ := r.Attributes["mark"].(string)
		return mark
	}
	return ""
}

// by returns a valid change.
func by(base int64) rules.Change {
	return rules.Change{Base: base, Author: "rulestest", Comment: fmt.Sprintf("based on %d", base)}
}

func (f *fixture) put(set *rules.Set, base int64) int64 {
	f.Helper()
	revision, err := f.Editor.Put(f.Context(), set, by(base))
	if err != nil {
		f.Fatalf("Put of %s based on revision %d: %v", set.ID(), base, err)
	}
	return revision
}

func (f *fixture) delete(id string, base int64) int64 {
	f.Helper()
	revision, err := f.Editor.Delete(f.Context(), id, by(base))
	if err != nil {
		f.Fatalf("Delete of %s based on revision %d: %v", id, base, err)
	}
	return revision
}

// write makes a rule set current, with Put or Write.
func (f *fixture) write(set *rules.Set) {
	f.Helper()
	if f.Editor == nil {
		f.Write(f, set)
		return
	}
	f.put(set, f.base(set.ID()))
}

// remove removes a rule set, with Delete or Remove.
func (f *fixture) remove(id string) {
	f.Helper()
	if f.Editor == nil {
		f.Remove(f, id)
		return
	}
	f.delete(id, f.base(id))
}

// base returns the revision that a change must be based on.
func (f *fixture) base(id string) int64 {
	f.Helper()
	head, known := f.head(id)
	if !known || head.Deleted {
		return 0
	}
	return head.Revision
}

func (f *fixture) head(id string) (head rules.Head, known bool) {
	f.Helper()
	head, known = f.revisions(id)[id]
	return head, known
}

func (f *fixture) revisions(ids ...string) map[string]rules.Head {
	f.Helper()
	heads, err := f.Source.Revisions(f.Context(), ids)
	if err != nil {
		f.Fatalf("Revisions: %v", err)
	}
	return heads
}

func (f *fixture) load(from rules.Source, id string) *rules.Version {
	f.Helper()
	v, err := from.Load(f.Context(), id)
	if err != nil {
		f.Fatalf("Load of %s: %v", id, err)
	}
	if v == nil || v.RuleSet == nil {
		f.Fatalf("Load of %s returns no rules and no error", id)
	}
	return v
}

func (f *fixture) version(id string, revision int64) *rules.Version {
	f.Helper()
	v, err := f.Editor.Version(f.Context(), id, revision)
	if err != nil {
		f.Fatalf("Version %d of %s: %v", revision, id, err)
	}
	return v
}

// history returns the whole history.
func (f *fixture) history(id string) []rules.Entry {
	f.Helper()
	return f.walkHistory(id, rules.MaxPage)
}

// walkHistory reads the history page by page.
func (f *fixture) walkHistory(id string, limit int) []rules.Entry {
	f.Helper()
	var all []rules.Entry
	for before := int64(0); ; before = all[len(all)-1].Revision {
		page, err := f.Editor.History(f.Context(), id, before, limit)
		if err != nil {
			f.Fatalf("History of %s before %d: %v", id, before, err)
		}
		if len(page) > limit {
			f.Fatalf("History of %s has %d entries on a page of %d", id, len(page), limit)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		if last := page[len(page)-1].Revision; before != 0 && last >= before {
			f.Fatalf("History of %s before revision %d ends with revision %d: paging would never end", id, before, last)
		}
	}
}

// state returns everything an editor returns about a rule set, to check that it has
// not changed.
func (f *fixture) state(id string) string {
	f.Helper()
	var b strings.Builder
	head, known := f.head(id)
	fmt.Fprintf(&b, "known %t, %+v\n", known, head)
	if v, err := f.Source.Load(f.Context(), id); err == nil {
		fmt.Fprintf(&b, "%s\n%s\n", line(v.Entry), f.document(v.RuleSet))
	} else {
		f.wantNotFound(err, "Load of "+id)
	}
	if f.Editor != nil {
		for _, e := range f.history(id) {
			fmt.Fprintln(&b, line(e))
		}
	}
	return b.String()
}

// line formats an entry, for comparison and messages.
func line(e rules.Entry) string {
	return fmt.Sprintf("%s at revision %d (deleted %t) by %q because %q at %v",
		e.RuleSetID, e.Revision, e.Deleted, e.Author, e.Comment, e.At.UTC().Format(time.RFC3339Nano))
}

// document returns the JSON of a rule set.
func (f *fixture) document(set *rules.Set) string {
	f.Helper()
	data, err := json.Marshal(set)
	if err != nil {
		f.Fatal(err)
	}
	return string(data)
}

func (f *fixture) wantNotFound(err error, what string) {
	f.Helper()
	if !errors.Is(err, rules.ErrNotFound) {
		f.Fatalf("%s: error %v, want ErrNotFound", what, err)
	}
}

func (f *fixture) wantConflict(err error, what, id string, base, current int64) {
	f.Helper()
	var conflict *rules.ConflictError
	if !errors.As(err, &conflict) {
		f.Fatalf("%s: error %v, want a ConflictError", what, err)
	}
	if want := (rules.ConflictError{RuleSetID: id, Base: base, Current: current}); *conflict != want {
		f.Fatalf("%s: conflict %+v, want %+v", what, *conflict, want)
	}
}
