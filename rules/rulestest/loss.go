package rulestest

import (
	"errors"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// A source that has lost its data counts from 1 again. A reader that has not seen the loss must
// see that the content is other.
var (
	lossChecks = []Check{
		{"after a loss of data the head differs, though the revision does not", lostRules},
	}
	overrideLossChecks = []Check{
		{"after a loss of data a reader of changes learns that its overrides are lost", lostOverrideData},
	}
)

func lostRules(t testing.TB, s Subject) {
	f := newEditing(t, s)
	if f.Lose == nil {
		t.Skip("the subject cannot lose its data")
	}
	id := f.id("set")
	var former []rules.Head
	for _, marks := range [][]string{{"a"}, {"b"}, {"c", "d"}} {
		for i, mark := range marks {
			f.put(f.set(id, mark), int64(i))
			head, _ := f.head(id)
			if head.Revision != int64(i+1) {
				t.Fatalf("after a loss change %d is revision %d", i+1, head.Revision)
			}
			for _, from := range []rules.Editor{f.Editor, f.other()} {
				v := f.load(from, id)
				if heads, err := from.Revisions(t.Context(), []string{id}); err != nil || heads[id] != v.Head || v.Head != head {
					t.Errorf("Revisions says %+v, then %+v, and Load %+v (%v)", head, heads[id], v.Head, err)
				}
				if markOf(v.RuleSet) != mark {
					t.Errorf("Load has the mark %q, want %q", markOf(v.RuleSet), mark)
				}
			}
			for _, before := range former {
				if before == head {
					t.Errorf("a rule set that was lost and put again has the head %+v as before", head)
				}
			}
			former = append(former, head)
		}
		f.Lose(t, id)
		if head, known := f.head(id); known {
			t.Fatalf("the subject has not lost its data: %+v", head)
		}
	}
}

func lostOverrideData(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	if f.Lose == nil {
		t.Skip("the subject cannot lose its data")
	}
	reader := f.follower(0)
	for round, names := range [][]string{{"a"}, {"b"}, {"c", "d", "e"}, {"f"}} {
		var revision int64
		for _, name := range names {
			revision = f.put(f.of(name, 2_000))
		}
		if round > 0 {
			if revision == reader.revision {
				t.Errorf("after a loss %d changes have revision %d, as those before", len(names), revision)
			}
			_, err := f.Overrides.OverrideChanges(f.Context(), f.set, reader.revision, 0)
			if !errors.Is(err, rules.ErrOverridesLost) {
				t.Errorf("changes since revision %d, which was lost, to %d: %v, want ErrOverridesLost", reader.revision, revision, err)
			}
		}
		f.wantState(reader)
		if len(reader.state) != len(names) {
			t.Errorf("a reader knows %d overrides, want the %d that were put after the loss", len(reader.state), len(names))
		}
		f.Lose(t, f.set)
		if f.revision() != 0 {
			t.Fatal("the subject has not lost its data")
		}
	}
}
