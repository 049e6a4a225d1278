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

// overrideDocuments returns the documents in the order of their users.
func (f *fixture) overrideDocuments() []bson.M {
	f.Helper()
	all, err := findAll[bson.M](f.Context(), f.current().overrides, bson.M{})
	must(f.T, err)
	slices.SortFunc(all, func(a, b bson.M) int { return strings.Compare(fmt.Sprint(a["identity"]), fmt.Sprint(b["identity"])) })
	return all
}

func (f *fixture) insertOverride(fields bson.M) any {
	f.Helper()
	result, err := f.current().overrides.InsertOne(f.Context(), fields)
	must(f.T, err)
	return result.InsertedID
}

func (f *fixture) editOverride(filter bson.M, update bson.D) {
	f.Helper()
	result, err := f.current().overrides.UpdateOne(f.Context(), filter, update)
	must(f.T, err)
	if result.MatchedCount != 1 {
		f.Fatalf("no document matches %v", filter)
	}
}

// Documents that another program inserts, edits and deletes are imported by the holder of the
// lease.
func TestOverrides_Edits(t *testing.T) {
	t.Parallel()
	f := overridden(t, Config{})
	f.wantOverrides()
	key := f.insertOverride(bson.M{"ruleSetId": setID, "ruleId": "standard", "identity": bson.M{"userId": "acme"}, "times": 2.5, "note": "kept"})
	f.insertOverride(bson.M{"ruleSetId": setID, "ruleId": "standard", "identity": bson.M{"userId": "bolt"}, "times": int32(3),
		"until": time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), "reason": "a launch"})
	f.insertOverride(bson.M{"ruleSetId": "another", "ruleId": "standard", "identity": bson.M{"userId": "acme"}, "times": 9})
	imported, err := f.Reconcile(t.Context(), setID)
	if err != nil || !imported {
		t.Fatalf("imported %t (%v)", imported, err)
	}
	f.wantOverrides("acme=2.5", "bolt=3")
	o, err := f.Override(t.Context(), setID, f.overrideID("acme"))
	if err != nil || o.Author != external || time.Since(o.At) > time.Minute {
		t.Errorf("the import is %+v (%v)", o, err)
	}
	if imported, err = f.Reconcile(t.Context(), setID); imported || err != nil {
		t.Errorf("nothing was edited: imported %t (%v)", imported, err)
	}
	f.editOverride(bson.M{"_id": key}, set("times", 4))
	must(t, reconcile(t.Context(), f))
	f.wantOverrides("acme=4", "bolt=3")
	if o, _ = f.Override(t.Context(), setID, f.overrideID("acme")); o.Revision != 3 {
		t.Errorf("one edit has made revision %d: others moved", o.Revision)
	}
	f.editOverride(bson.M{"_id": key}, set("identity.userId", "core")) // another override
	must(t, reconcile(t.Context(), f))
	f.wantOverrides("bolt=3", "core=4")
	_, err = f.current().overrides.DeleteMany(t.Context(), bson.M{"ruleSetId": setID})
	must(t, err)
	must(t, reconcile(t.Context(), f))
	f.wantOverrides()
	f.putOverrides(forUser("acme", 2_000))
	documents := f.overrideDocuments()
	if len(documents) != 2 || documents[1]["times"] != int64(2) {
		t.Errorf("the documents are %v", documents)
	}
}

func (f *fixture) overrideID(user string) string {
	o := forUser(user, 1)
	return o.ID()
}

// A write keeps unknown fields of a document and its _id, and does not overwrite an edit that its
// author has not seen.
func TestOverrides_EditAndWrite(t *testing.T) {
	t.Parallel()
	f := overridden(t, Config{})
	key := f.insertOverride(bson.M{"ruleSetId": setID, "ruleId": "standard", "identity": bson.M{"userId": "acme"}, "times": 2, "note": "kept"})
	must(t, reconcile(t.Context(), f))
	now := forUser("acme", 3_000)
	now.Revision = f.putOverrides(now)
	if d := f.overrideDocuments()[0]; d["_id"] != key || d["note"] != "kept" || d["times"] != int64(3) {
		t.Errorf("the document is %v", d)
	}
	f.editOverride(bson.M{"_id": key}, set("times", 7))
	var conflict *rules.OverrideConflictError
	if _, err := f.PutOverrides(t.Context(), setID, []rules.Override{now}); !errors.As(err, &conflict) {
		t.Errorf("a change of an override that was edited: %v", err)
	}
	f.wantOverrides("acme=7")
	_, err := f.current().overrides.DeleteOne(t.Context(), bson.M{"_id": key})
	must(t, err)
	if now.Revision = conflict.Current; true {
		_, err = f.PutOverrides(t.Context(), setID, []rules.Override{now})
	}
	if !errors.As(err, &conflict) || conflict.Current != 0 {
		t.Errorf("a change of an override whose document was deleted: %v", err)
	}
	f.putOverrides(forUser("acme", 5_000))
	f.editOverride(bson.M{}, set("times", "many"))
	f.putOverrides(forUser("acme", 6_000)) // which replaces an invalid edit
	must(t, reconcile(t.Context(), f))
	f.wantOverrides("acme=6")
}

// Invalid documents change nothing and are named on every server.
func TestOverrides_InvalidDocuments(t *testing.T) {
	t.Parallel()
	f := overridden(t, Config{})
	f.putOverrides(forUser("acme", 2_000), forUser("bolt", 3_000))
	f.editOverride(bson.M{"identity.userId": "acme"}, set("times", -1))
	copied := f.overrideDocuments()[1]
	delete(copied, "_id")
	second := f.insertOverride(copied)
	without := f.insertOverride(bson.M{"ruleSetId": setID, "ruleId": "standard", "identity": bson.M{"apiKey": 5}, "times": 2})
	f.insertOverride(bson.M{"ruleSetId": setID, "ruleId": "standard", "identity": bson.M{"userId": "core"}, "times": 4})
	err := reconcile(t.Context(), f)
	other := f.open(Config{})
	for _, err := range []error{err, reconcile(t.Context(), other), reconcile(t.Context(), f)} {
		for _, want := range []any{"3 documents", f.overrideID("acme"), "second document", second.(bson.ObjectID).Hex(), without.(bson.ObjectID).Hex()} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint(want)) {
				t.Errorf("the problem is %v, want %v in it", err, want)
			}
		}
	}
	if err := other.Examine(t.Context(), setID); !errors.Is(err, errInvalidOverrides) {
		t.Errorf("Examine returns %v", err)
	}
	f.wantOverrides("acme=2", "bolt=3", "core=4")
	f.editOverride(bson.M{"identity.userId": "acme"}, set("times", 5))
	_, err = f.current().overrides.DeleteMany(t.Context(), bson.M{"_id": bson.M{"$in": bson.A{second, without}}})
	must(t, err)
	must(t, reconcile(t.Context(), f))
	must(t, reconcile(t.Context(), other))
	f.wantOverrides("acme=5", "bolt=3", "core=4")
}

// An API key that a person wrote in plain text is replaced everywhere, also in a document that is
// not valid.
func TestOverrides_PlainAPIKey(t *testing.T) {
	t.Parallel()
	const plain = "a-plain-API-key-that-must-not-be-kept"
	f := overridden(t, Config{})
	f.insertOverride(bson.M{"ruleSetId": setID, "ruleId": "standard", "identity": bson.M{"apiKey": plain, "ip": "10.0.0.1"}, "times": 2})
	must(t, reconcile(t.Context(), f))
	o := rules.Override{RuleID: "standard", Identity: map[string]string{"apiKey": rules.DigestAPIKey(plain), "ip": "10.0.0.1"}}
	if got, err := f.Override(t.Context(), setID, o.ID()); err != nil || got.Times != 2_000 {
		t.Errorf("the override is %+v (%v)", got, err)
	}
	f.insertOverride(bson.M{"ruleSetId": setID, "ruleId": "standard", "identity": bson.M{"apiKey": plain}, "times": "many"})
	if err := reconcile(t.Context(), f); err == nil || strings.Contains(err.Error(), plain) {
		t.Errorf("an invalid document: %v", err)
	}
	if strings.Contains(f.storedOverrides(t), plain) {
		t.Error("the API key is kept")
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
		if n := len(f.overrideDocuments()); n != 2 {
			t.Errorf("stopped at call %d: %d documents", call, n)
		}
		if calls <= call {
			return
		}
	}
}

// A writer that resumes after others have changed the same overrides changes nothing.
func TestOverrides_LateWriter(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"deleting entries of", "writing the log of", "deleting documents of", "writing documents of", "marking overrides"} {
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
			if n := len(f.overrideDocuments()); n != 2 || !did {
				t.Errorf("%d documents", n)
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
	f.putOverrides(forUser("goes", 1_000))
	gone := forUser("goes", 0)
	gone.Deleted = true
	f.putOverrides(gone)
	_, err := f.current().overrideLog.UpdateOne(t.Context(), bson.M{"_id": setID}, set("deleted", 2*maxDeleted))
	must(t, err)
	for range 3 {
		if _, err := f.OverrideChanges(t.Context(), setID, 2, 0); err != nil {
			t.Errorf("forgotten too early: %v", err)
		}
		now = now.Add(2 * keepDeleted)
		_, err := f.current().overrideLog.UpdateOne(t.Context(), bson.M{"_id": setID}, set("deleted", 2*maxDeleted))
		must(t, err)
		if f.putOverrides(forUser("stays", 1_000)) == 5 {
			break
		}
	}
	if _, err := f.OverrideChanges(t.Context(), setID, 2, 0); !errors.Is(err, rules.ErrOverridesLost) {
		t.Errorf("the changes since a revision before a forgotten deletion: %v", err)
	}
	f.wantOverridesLog(1)
}

// wantOverridesLog counts the entries of the log.
func (f *fixture) wantOverridesLog(want int) {
	f.Helper()
	all, err := findAll[bson.M](f.Context(), f.current().overrideLog, bson.M{"ruleSetId": setID})
	must(f.T, err)
	if len(all) != want {
		f.Errorf("the log has %d entries, want %d", len(all), want)
	}
}
