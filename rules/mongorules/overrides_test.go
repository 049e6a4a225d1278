package mongorules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// The suite of overrides passes. The test server scans whole collections for each change, so
// the checks with the most overrides take minutes.
func TestOverrides_Conformance(t *testing.T) {
	t.Parallel()
	for _, c := range rulestest.OverrideChecks() {
		t.Run(c.Name, func(t *testing.T) {
			if (strings.Contains(c.Name, "MaxOverrides") || strings.Contains(c.Name, "changes are lost")) && !*full {
				t.Skip("takes minutes: run it with -full")
			}
			f := newFixture(t, Config{})
			c.Run(t, rulestest.Subject{
				Overrides:     f.Source,
				OpenOverrides: func(testing.TB) rules.OverrideEditor { return f.open(Config{}) },
				Stored:        f.storedOverrides,
				Lose:          f.lose,
				Writers:       10, Changes: 50,
			})
		})
	}
}

// storedOverrides returns all documents, as JSON.
func (f *fixture) storedOverrides(t testing.TB) string {
	t.Helper()
	var all []string
	names, err := f.db.ListCollectionNames(t.Context(), bson.M{})
	must(t, err)
	for _, name := range names {
		documents, err := findAll[bson.M](t.Context(), f.db.Collection(name), bson.M{})
		must(t, err)
		text, err := json.Marshal(documents)
		must(t, err)
		all = append(all, string(text))
	}
	return strings.Join(all, "\n")
}

// overridden is a fixture with a rule set, whose lease this source holds.
func overridden(t *testing.T, config Config) *fixture {
	t.Helper()
	f := newFixture(t, config)
	f.put(rule("standard", 10))
	must(t, reconcile(t.Context(), f))
	return f
}

func forUser(user string, times rules.Times) rules.Override {
	return rules.Override{RuleSetID: setID, RuleID: "standard", Identity: map[string]string{"userId": user}, Times: times, Author: "ann"}
}

func (f *fixture) putOverrides(changes ...rules.Override) int64 {
	f.Helper()
	revision, err := f.PutOverrides(f.Context(), setID, changes)
	must(f.T, err)
	return revision
}

// wantOverrides compares the overrides of a source, and what a reader of changes knows, with users
// and their factors.
func (f *fixture) wantOverrides(want ...string) {
	f.Helper()
	page, err := f.ListOverrides(f.Context(), setID, "", 0)
	must(f.T, err)
	changes, err := f.OverrideChanges(f.Context(), setID, 0, 0)
	must(f.T, err)
	known := map[string]rules.Override{}
	for _, o := range changes.Overrides {
		if known[o.ID()] = o; o.Deleted {
			delete(known, o.ID())
		}
	}
	var got, read []string
	for _, o := range page.Overrides {
		got = append(got, fmt.Sprintf("%s=%s", o.Identity["userId"], o.Times))
	}
	for _, o := range known {
		read = append(read, fmt.Sprintf("%s=%s", o.Identity["userId"], o.Times))
	}
	slices.Sort(got)
	slices.Sort(read)
	if !slices.Equal(got, want) || !slices.Equal(read, want) || len(page.Damaged)+len(changes.Damaged) > 0 {
		f.Errorf("the overrides are %v, a reader knows %v, want %v (damaged: %v)", got, read, want, changes.Damaged)
	}
}

// A writer that is interrupted at any call has made its change, or nothing. The next writer or the
// reconciler completes it.
func TestOverrides_Interrupted(t *testing.T) {
	t.Parallel()
	f := overridden(t, Config{})
	errStop := errors.New("stopped")
	for call := 0; ; call++ {
		f.putOverrides(forUser("changes", 1_000), forUser("goes", 1_000), rules.Override{
			RuleID: "standard", Identity: map[string]string{"userId": "comes"}, Deleted: true})
		calls := 0
		writer := f.handle(Config{step: func(string) error {
			if calls++; calls > call {
				return errStop
			}
			return nil
		}})
		gone := forUser("goes", 0)
		gone.Deleted = true
		_, err := writer.PutOverrides(t.Context(), setID, []rules.Override{forUser("changes", 2_000), gone, forUser("comes", 3_000)})
		must(t, reconcile(t.Context(), f))
		if err != nil {
			f.wantOverrides("changes=1", "goes=1")
		} else {
			f.wantOverrides("changes=2", "comes=3")
		}
		if calls <= call {
			return
		}
	}
}

// A writer that resumes after others have changed the same overrides changes nothing.
func TestOverrides_LateWriter(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"deleting overrides", "writing overrides", "marking overrides"} {
		t.Run(at, func(t *testing.T) {
			f := overridden(t, Config{})
			f.putOverrides(forUser("changes", 1_000), forUser("goes", 1_000))
			gone, comes := forUser("goes", 0), forUser("comes", 3_000)
			gone.Deleted = true
			did := false
			writer := f.handle(Config{step: func(doing string) error {
				if strings.HasPrefix(doing, at) && !did {
					did = true
					again := forUser("comes", 0)
					again.Deleted = true
					f.putOverrides(forUser("changes", 4_000), forUser("goes", 5_000))
					f.putOverrides(again)
				}
				return nil
			}})
			_, err := writer.PutOverrides(t.Context(), setID, []rules.Override{forUser("changes", 2_000), gone, comes})
			must(t, err)
			must(t, reconcile(t.Context(), f))
			f.wantOverrides("changes=4", "goes=5")
			if !did {
				t.Error("the writer was not interrupted")
			}
		})
	}
}

// Deletions are forgotten when there are many, a minute later, and a reader learns it.
func TestOverrides_Forget(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := overridden(t, Config{Now: func() time.Time { return now }})
	f.putOverrides(forUser("stays", 1_000))
	before := f.putOverrides(forUser("goes", 1_000))
	gone := forUser("goes", 0)
	gone.Deleted = true
	f.putOverrides(gone)
	_, err := f.current().overrides.UpdateOne(t.Context(), bson.M{"_id": setID}, set("deleted", 2*maxDeleted))
	must(t, err)
	for range 3 {
		if _, err := f.OverrideChanges(t.Context(), setID, before, 0); err != nil {
			t.Errorf("forgotten too early: %v", err)
		}
		now = now.Add(2 * keepDeleted)
		_, err := f.current().overrides.UpdateOne(t.Context(), bson.M{"_id": setID}, set("deleted", 2*maxDeleted))
		must(t, err)
		if f.putOverrides(forUser("stays", 1_000)) == before+3 {
			break
		}
	}
	if _, err := f.OverrideChanges(t.Context(), setID, before, 0); !errors.Is(err, rules.ErrOverridesLost) {
		t.Errorf("the changes since a revision before a forgotten deletion: %v", err)
	}
	f.wantOverrideEntries(1)
}

// wantOverrideEntries counts the overrides and deletions.
func (f *fixture) wantOverrideEntries(want int) {
	f.Helper()
	all, err := findAll[bson.M](f.Context(), f.current().overrides, bson.M{"ruleSetId": setID})
	must(f.T, err)
	if len(all) != want {
		f.Errorf("there are %d entries, want %d", len(all), want)
	}
}

// A deletion of a rule set that is interrupted at any call deletes its overrides too, or nothing: a
// reconciler deletes them, or the next writer before it puts the rule set again. An older version
// leaves them as a writer does that is interrupted after its commit.
func TestOverrides_DeletionInterrupted(t *testing.T) {
	t.Parallel()
	base := newFixture(t, Config{Lease: 1})
	for name, again := range map[string]bool{"deletion": false, "the next put": true} {
		for _, finisher := range []string{"reconciler", "writer"} {
			for call := 0; ; call++ {
				f := base.fresh(t, Config{Lease: 1})
				revision := f.put(rule("standard", 10))
				f.putOverrides(forUser("a", 1_000), forUser("b", 1_000))
				if again { // as an older version deletes it
					older := f.handle(Config{Lease: 1, step: func(doing string) error {
						if strings.Contains(doing, "overrides") {
							return errKilled
						}
						return nil
					}})
					_, err := older.Delete(t.Context(), setID, by(revision))
					must(t, err)
					f.wantOverrides("a=1", "b=1")
				}
				w := &steps{at: call, once: kill}
				writer := f.handle(Config{Lease: 1, step: w.step})
				var err error
				if again {
					_, err = writer.Put(t.Context(), newSet(t, setID, rule("standard", 10)), by(0))
				} else {
					_, err = writer.Delete(t.Context(), setID, by(revision))
				}
				deleted := f.headNow().Deleted
				if finisher == "reconciler" {
					must(t, reconcile(t.Context(), f))
				}
				switch {
				case !deleted && !again:
					f.wantOverrides("a=1", "b=1")
				case deleted && finisher == "writer":
					f.put(rule("standard", 10))
					fallthrough
				default:
					f.wantNoOverrides(fmt.Sprintf("%s killed before call %d, %q (%v), finished by a %s", name, call, w.all, err, finisher))
				}
				if t.Failed() {
					return
				}
				if len(w.all) <= call {
					break
				}
			}
		}
	}
}

// wantNoOverrides checks that no reader finds overrides.
func (f *fixture) wantNoOverrides(when string) {
	f.Helper()
	page, err := f.ListOverrides(f.Context(), setID, "", 0)
	must(f.T, err)
	_, lost := f.OverrideChanges(f.Context(), setID, 2, 0)
	revisions, err := f.OverrideRevisions(f.Context(), []string{setID})
	must(f.T, err)
	last, err := f.OverrideChanges(f.Context(), setID, revisions[setID], 0)
	if len(page.Overrides)+len(page.Damaged)+len(last.Overrides) > 0 || !errors.Is(lost, rules.ErrOverridesLost) || err != nil {
		f.Errorf("%s: the overrides are %+v, a reader of before gets %v, the last changes are %+v (%v)", when, page, lost, last, err)
	}
}

// A writer of overrides that resumes after the deletion of their rule set, also when that exists again,
// has written none.
func TestOverrides_WriterAfterDeletion(t *testing.T) {
	t.Parallel()
	base := newFixture(t, Config{Lease: 1})
	for _, again := range []bool{false, true} {
		for call := 0; ; call++ {
			f := base.fresh(t, Config{Lease: 1})
			revision := f.put(rule("standard", 10))
			f.putOverrides(forUser("a", 1_000), forUser("b", 1_000))
			err := f.held(call, Config{Lease: 1}, func(s *Source) error {
				_, err := s.PutOverrides(t.Context(), setID, []rules.Override{forUser("a", 2_000), forUser("c", 2_000)})
				return err
			}, func() {
				_, err := f.Delete(t.Context(), setID, by(revision))
				must(t, err)
				if again {
					f.put(rule("standard", 10))
				}
			})
			page, failed := f.ListOverrides(t.Context(), setID, "", 0)
			must(t, failed)
			h, failed := f.fetchOverrideHead(t.Context(), setID)
			must(t, failed)
			for _, o := range page.Overrides { // it may be made later
				if !again || err != nil || o.Revision <= h.Forgotten || o.Times != 2_000 {
					t.Errorf("held before call %d (%v; put again: %t): override %+v", call, err, again, o)
				}
			}
			if n := len(page.Overrides); n != 0 && n != 2 || len(page.Damaged) > 0 || !again && err != nil && !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("held before call %d (%v): %d overrides", call, err, n)
			}
			const mostCalls = 12
			if call == mostCalls {
				break
			}
		}
	}
}

// What blocks late writers is removed later.
func TestOverrides_EmptiedEntries(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := overridden(t, Config{Now: func() time.Time { return now }})
	f.putOverrides(forUser("a", 1_000), forUser("b", 1_000))
	revision := f.base()
	for range 3 {
		_, err := f.Delete(t.Context(), setID, by(revision))
		must(t, err)
		f.wantOverrideEntries(2)
		now = now.Add(2 * keepDeleted)
		revision = f.put(rule("standard", 10))
		f.wantOverrideEntries(0)
		f.putOverrides(forUser("a", 1_000), forUser("c", 1_000))
		if page, err := f.ListOverrides(t.Context(), setID, "", 0); err != nil || len(page.Overrides) != 2 {
			t.Errorf("%+v (%v)", page, err)
		}
	}
}
