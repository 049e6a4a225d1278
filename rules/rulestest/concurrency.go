package rulestest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var concurrencyChecks = []Check{
	{"concurrent writers lose no change and every version can be restored", concurrentWriters},
}

// addMark makes one compare-and-set change: it reads, adds a mark and puts, and
// repeats that after a conflict. All marks are one string, in order, each followed
// by a space, because long lists take long to read.
func (f *fixture) addMark(e rules.Editor, id, author, mark string) error {
	const attempts = 2_000
	for attempt := range attempts {
		var base int64
		marks := ""
		switch v, err := e.Load(f.Context(), id); {
		case err == nil:
			base, marks = v.Revision, markOf(v.RuleSet)
		case !errors.Is(err, rules.ErrNotFound):
			return fmt.Errorf("loading: %w", err)
		}
		set, err := rules.NewSet(id, rule(id, map[string]any{"mark": marks + mark + " "}))
		if err != nil {
			return err
		}
		var conflict *rules.ConflictError
		switch _, err = e.Put(f.Context(), set, rules.Change{Base: base, Author: author, Comment: mark}); {
		case err == nil:
			return nil
		case !errors.As(err, &conflict):
			return fmt.Errorf("putting: %w", err)
		}
		// The pause only reduces conflicts.
		time.Sleep(rand.N(time.Duration(min(attempt+1, 50)) * time.Millisecond))
	}
	return fmt.Errorf("%d attempts at one change were conflicts", attempts)
}

func concurrentWriters(t testing.TB, s Subject) {
	f := newEditing(t, s)
	id := f.id("set")
	editors := []rules.Editor{f.Editor, f.other()}
	missing := map[string]bool{}
	var all sync.WaitGroup
	for writer := range f.Writers {
		author := fmt.Sprintf("writer-%d", writer)
		var marks []string
		for i := writer; i < f.Changes; i += f.Writers {
			marks = append(marks, fmt.Sprintf("%d.%d", writer, i))
			missing[marks[len(marks)-1]] = true
		}
		all.Go(func() {
			for _, mark := range marks {
				if err := f.addMark(editors[writer%2], id, author, mark); err != nil {
					t.Errorf("%s: %v", author, err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}

	current := f.load(f.Source, id)
	if current.Revision != int64(f.Changes) {
		t.Errorf("%d changes have made %d revisions", f.Changes, current.Revision)
	}
	for mark := range strings.FieldsSeq(markOf(current.RuleSet)) {
		if !missing[mark] {
			t.Errorf("the mark %s exists twice, or was never added", mark)
		}
		delete(missing, mark)
	}
	if len(missing) > 0 {
		t.Fatalf("%d of %d changes are lost", len(missing), f.Changes)
	}
	f.restoreSome(id, f.everyMark(id))
}

// everyMark checks that every version has the marks of the previous one and the one
// of its entry. It returns the documents, oldest first.
func (f *fixture) everyMark(id string) []string {
	f.Helper()
	history := f.history(id)
	want := f.Changes
	if f.History != 0 {
		want = min(want, f.History)
	}
	if len(history) != want {
		f.Fatalf("after %d changes the history has %d revisions, want %d", f.Changes, len(history), want)
	}
	slices.Reverse(history)
	documents := make([]string, len(history))
	before := ""
	for i, e := range history {
		if want := int64(f.Changes - len(history) + i + 1); e.Revision != want {
			f.Fatalf("the history has revision %d, want %d", e.Revision, want)
		}
		v := f.version(id, e.Revision)
		marks := markOf(v.RuleSet)
		if n := strings.Count(marks, " "); int64(n) != e.Revision || i > 0 && marks != before+e.Comment+" " {
			f.Fatalf("revision %d is not the previous one and the mark %s: it has %d marks", e.Revision, e.Comment, n)
		}
		before, documents[i] = marks, f.document(v.RuleSet)
	}
	return documents
}

// restoreSome restores versions, oldest first, because each restoration may delete
// the oldest from the history.
func (f *fixture) restoreSome(id string, documents []string) {
	f.Helper()
	step := max(1, len(documents)/20)
	if f.RestoreAll {
		step = 1
	}
	oldest := int64(f.Changes - len(documents) + 1)
	current := int64(f.Changes)
	for i := 0; i < len(documents); i += step {
		revision, err := Restore(f.Context(), f.Editor, id, oldest+int64(i), by(current))
		if err != nil {
			f.Fatalf("Restore of revision %d: %v", oldest+int64(i), err)
		}
		current = revision
		if f.document(f.load(f.Source, id).RuleSet) != documents[i] {
			f.Fatalf("revision %d was restored with other bytes", oldest+int64(i))
		}
	}
	page, err := f.Editor.History(f.Context(), id, 0, 10*rules.MaxPage)
	if err != nil || len(page) > rules.MaxPage {
		f.Errorf("a page of the history has %d entries (error %v), at most %d are returned at once", len(page), err, rules.MaxPage)
	}
}
