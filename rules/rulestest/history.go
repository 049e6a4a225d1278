package rulestest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

var historyChecks = []Check{
	{"history is newest first and pages over it miss and repeat nothing", historyPages},
	{"history has the rules of every revision and of no other", everyVersion},
	{"history is bounded and drops the oldest revisions", historyBound},
	{"history is bounded in bytes and keeps the last two revisions", historyBytes},
}

var listChecks = []Check{
	{"list has the existing rule sets in the order of their ids, page by page", listPages},
}

// limits are those that return a full page.
var limits = []int{0, -1, math.MinInt, rules.MaxPage, rules.MaxPage + 1, math.MaxInt}

// write7 makes seven revisions, of which the fourth is a deletion, and returns their
// documents.
func (f *fixture) write7(id string) []string {
	f.Helper()
	var documents []string
	for i := range int64(7) {
		if i == 3 {
			f.delete(id, i)
			documents = append(documents, "")
			continue
		}
		set := f.setOf(id, rule(id, map[string]any{"mark": mark(int(i))}), rule(fmt.Sprintf("%s-%d", id, i), awkward["numbers"]))
		f.put(set, f.base(id))
		documents = append(documents, f.document(set))
	}
	return documents
}

func revisionsOf(entries []rules.Entry) string {
	var revisions []string
	for _, e := range entries {
		revisions = append(revisions, fmt.Sprint(e.Revision))
	}
	return strings.Join(revisions, " ")
}

func historyPages(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	f.write7(id)
	f.write7(f.id("another"))
	page := func(before int64, limit int, want string) {
		t.Helper()
		entries, err := f.Editor.History(t.Context(), id, before, limit)
		if err != nil {
			t.Fatal(err)
		}
		if got := revisionsOf(entries); got != want {
			t.Errorf("History before %d, at most %d, is %q, want %q", before, limit, got, want)
		}
	}
	page(0, 3, "7 6 5")
	page(5, 3, "4 3 2")
	page(2, 3, "1")
	page(1, 3, "")
	page(1<<40, 2, "7 6")
	for _, limit := range limits {
		page(0, limit, "7 6 5 4 3 2 1")
	}
	for limit := 1; limit < 10; limit++ {
		if got := revisionsOf(f.walkHistory(id, limit)); got != "7 6 5 4 3 2 1" {
			t.Errorf("the history in pages of %d is %q", limit, got)
		}
	}
	for _, unknown := range append([]string{f.id("unknown")}, strange...) {
		if entries, err := f.Editor.History(t.Context(), unknown, 0, 10); err != nil || len(entries) != 0 {
			t.Errorf("History of %.100q, which never existed: %v and error %v, want neither", unknown, entries, err)
		}
	}
}

func everyVersion(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	documents := f.write7(id)
	for i, e := range f.history(id) {
		want := documents[len(documents)-1-i]
		v := f.version(id, e.Revision)
		switch {
		case line(v.Entry) != line(e):
			t.Errorf("Version has %s, History %s", line(v.Entry), line(e))
		case e.Deleted != (want == "") || e.Deleted != (v.RuleSet == nil):
			t.Errorf("revision %d: deleted %t, rules %v; it was put as %q", e.Revision, e.Deleted, v.RuleSet, want)
		case !e.Deleted && f.document(v.RuleSet) != want:
			t.Errorf("revision %d is\n%s\nand was put as\n%s", e.Revision, f.document(v.RuleSet), want)
		}
	}
	for _, revision := range []int64{math.MinInt64, -1, 0, 8, math.MaxInt64} {
		_, err := f.Editor.Version(t.Context(), id, revision)
		f.wantNotFound(err, fmt.Sprintf("Version %d of 7", revision))
	}
	for _, unknown := range append([]string{f.id("unknown")}, strange...) {
		_, err := f.Editor.Version(t.Context(), unknown, 1)
		f.wantNotFound(err, fmt.Sprintf("Version 1 of %.100q", unknown))
	}
}

func historyBound(t testing.TB, s Subject) {
	f := newEditing(t, s)
	if f.History == 0 {
		t.Skip("the subject does not set History")
	}
	id, bound := f.id("set"), int64(f.History)
	for revision := int64(1); revision <= bound+5; revision++ {
		if revision == bound+3 {
			f.delete(id, revision-1)
		} else {
			f.put(f.set(id, fmt.Sprint(revision)), f.base(id))
		}
		if revision < bound {
			continue
		}
		history := f.history(id)
		if n := int64(len(history)); n != bound || history[0].Revision != revision || history[n-1].Revision != revision-bound+1 {
			t.Fatalf("after %d changes the history of %d is %s", revision, bound, revisionsOf(history))
		}
		if oldest := revision - bound + 1; markOf(f.version(id, oldest).RuleSet) != fmt.Sprint(oldest) {
			t.Errorf("the oldest revision that is kept, %d, has the rules of another revision", oldest)
		}
		_, err := f.Editor.Version(t.Context(), id, revision-bound)
		f.wantNotFound(err, "Version of a revision beyond the bound")
	}
}

// historyBytes makes revisions of a quarter of the bound, and then some as long as
// the bound, including a deletion.
func historyBytes(t testing.TB, s Subject) {
	f := newEditing(t, s)
	if f.HistoryBytes == 0 {
		t.Skip("the subject does not set HistoryBytes")
	}
	id, bound := f.id("set"), f.HistoryBytes
	var sizes []int // of the revisions from 1 on
	put := func(size int) {
		t.Helper()
		set := f.set(id, strings.Repeat("x", size))
		f.put(set, f.base(id))
		sizes = append(sizes, len(f.document(set)))
	}
	kept := func() {
		t.Helper()
		want, sum := 0, 0 // how many revisions stay
		for _, size := range slices.Backward(sizes) {
			if sum += size; sum > bound && want >= 2 {
				break
			}
			want++
		}
		history, newest := f.history(id), int64(len(sizes))
		if len(history) != want || history[0].Revision != newest {
			t.Fatalf("after documents of %v bytes the history of %d bytes has the revisions %s, want the last %d", sizes, bound, revisionsOf(history), want)
		}
		for _, e := range history {
			if v := f.version(id, e.Revision); !v.Deleted && len(f.document(v.RuleSet)) != sizes[e.Revision-1] {
				t.Errorf("revision %d has the rules of another revision", e.Revision)
			}
		}
		if forgotten := newest - int64(want); forgotten > 0 {
			_, err := f.Editor.Version(t.Context(), id, forgotten)
			f.wantNotFound(err, "Version of a revision beyond the bound")
		}
	}
	for range 9 {
		put(bound / 4)
		kept()
	}
	for range 3 {
		put(bound)
		kept()
	}
	f.delete(id, int64(len(sizes)))
	sizes = append(sizes, 0)
	kept()
	for range 5 {
		put(10)
		kept()
	}
}

// list returns the fixture's rule sets.
func (f *fixture) list(limit int) []rules.Entry {
	f.Helper()
	var own []rules.Entry
	for after := f.prefix; ; {
		page, err := f.Editor.List(f.Context(), after, limit)
		if err != nil {
			f.Fatalf("List after %q: %v", after, err)
		}
		if len(page) > limit {
			f.Fatalf("List has %d entries on a page of %d", len(page), limit)
		}
		for _, e := range page {
			if e.RuleSetID <= after {
				f.Fatalf("List after %q has %q", after, e.RuleSetID)
			}
			if after = e.RuleSetID; !strings.HasPrefix(after, f.prefix) {
				return own
			}
			own = append(own, e)
		}
		if len(page) == 0 {
			return own
		}
	}
}

func listPages(t testing.TB, s Subject) {
	f := newEditing(t, s)
	var want []string
	for _, name := range []string{"b", "a", "A", "aa", "a.b", "a-b", "a_b", "B", "0", "10", "9", "Z", "z", "-", ".", "_", "c", "d", "e"} {
		f.put(f.set(f.id(name), name), 0)
		want = append(want, f.id(name))
	}
	for _, name := range []string{"c", "e"} {
		f.delete(f.id(name), 1)
		want = slices.DeleteFunc(want, func(id string) bool { return id == f.id(name) })
	}
	slices.Sort(want)
	f.put(f.set(f.id("d"), "again"), 1)
	for limit := 1; limit < 25; limit++ {
		var got []string
		for _, e := range f.list(limit) {
			got = append(got, e.RuleSetID)
			if e.RuleSetID != f.id("d") && e.Current() != 1 {
				t.Errorf("List has %+v of %s, want revision 1", e.Head, e.RuleSetID)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("List in pages of %d has\n%v, want\n%v", limit, got, want)
		}
	}
	for _, limit := range limits {
		page, err := f.Editor.List(t.Context(), f.id("a"), limit)
		if err != nil || len(page) < 2 || len(page) > rules.MaxPage || page[0].RuleSetID != f.id("a-b") {
			t.Errorf("List after %s with a limit of %d begins with %v (error %v), want a full page from %s on", f.id("a"), limit, page, err, f.id("a-b"))
		}
	}
}
