package mongorules

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/rules"
)

// draftOf returns a document of a rule without bands.
func draftOf(id string, bands ...any) bson.D {
	document := bson.D{{Key: "_id", Value: id}, {Key: "ruleSetId", Value: setID}, {Key: "path", Value: "/draft"}}
	for _, b := range bands {
		document = append(document, bson.E{Key: "bands", Value: b})
	}
	return document
}

// Documents of rules without bands that are in no revision are ignored, with one
// warning, and delay no import of other rules.
func TestUnfinishedDocument_Ignored(t *testing.T) {
	for name, before := range map[string]func(f *fixture){
		"before the first revision": func(f *fixture) { f.insert(javaDocument("a")) },
		"beside a revision":         func(f *fixture) { f.put(rule("a", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			f := newFixture(t, Config{Lease: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			before(f)
			f.insert(draftOf("draft"), draftOf("draft-null", nil), draftOf("draft-empty", bson.A{}))
			f.reconcileNow()
			f.reconcileNow()
			if v := f.load(); v.RuleSet.Len() != 1 || v.Revision != 1 {
				t.Fatalf("revision %d with %d rules", v.Revision, v.RuleSet.Len())
			}
			if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "draft, draft-empty, draft-null") {
				t.Errorf("the log has %d warnings:\n%s", n, log.String())
			}
			f.shell("a", set("bands.0.capacity", 70)) // an edit of another rule is imported
			f.reconcileNow()
			if v := f.load(); v.Revision != 2 || v.RuleSet.Len() != 1 {
				t.Errorf("revision %d with %d rules", v.Revision, v.RuleSet.Len())
			}
			if doc := f.document("draft"); len(doc) != 3 {
				t.Errorf("the document has become %v", doc)
			}
			f.shell("draft", set("bands", bson.A{bson.D{{Key: "capacity", Value: 5}, {Key: "refillSeconds", Value: 1}}}))
			f.reconcileNow()
			if v := f.load(); v.Revision != 3 || v.RuleSet.Len() != 2 {
				t.Errorf("with bands it is not part of revision %d, which has %d rules", v.Revision, v.RuleSet.Len())
			}
		})
	}
}

// Deleting the bands of a rule in effect is an invalid edit, also if the whole
// document is replaced.
func TestUnfinishedDocument_RuleInEffect(t *testing.T) {
	for name, edit := range map[string]func(f *fixture){
		"unset": func(f *fixture) { f.shell("a", bson.D{{Key: "$unset", Value: bson.D{{Key: "bands", Value: ""}}}}) },
		"replaced": func(f *fixture) {
			_, err := f.current().docs.ReplaceOne(f.Context(), bson.D{{Key: "_id", Value: "a"}}, draftOf("a"))
			must(f.T, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{Lease: 1})
			f.put(rule("a", 1), rule("b", 1))
			edit(f)
			if err := reconcile(f.Context(), f); !errors.As(err, new(*rules.ValidationError)) || !strings.Contains(err.Error(), "bands") {
				t.Errorf("Reconcile: %v", err)
			}
			if v := f.load(); v.Revision != 1 || v.RuleSet.Len() != 2 {
				t.Errorf("revision %d with %d rules", v.Revision, v.RuleSet.Len())
			}
		})
	}
}

// A Put with the rule replaces its unfinished document.
func TestUnfinishedDocument_Put(t *testing.T) {
	for name, before := range map[string]func(f *fixture){
		"as the first revision": func(*fixture) {},
		"as the next revision":  func(f *fixture) { f.put(rule("a", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{Lease: 1})
			before(f)
			f.insert(draftOf("draft"), draftOf("other"))
			f.put(rule("a", 1), rule("draft", 7))
			f.reconcileNow()
			if doc := f.document("draft"); doc["bands"] == nil || doc["checksum"] == nil {
				t.Errorf("the document is still %v", doc)
			}
			if doc := f.document("other"); len(doc) != 3 {
				t.Errorf("another unfinished document has become %v", doc)
			}
		})
	}
}

// A collection that lost all but an unfinished document is written again.
func TestUnfinishedDocument_LostCollection(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(rule("a", 1), rule("b", 1))
	_, err := f.current().docs.DeleteMany(t.Context(), bson.D{})
	must(t, err)
	f.insert(draftOf("draft"))
	f.reconcileUndone("all documents were missing")
	if v := f.load(); v.Revision != 1 || f.document("a") == nil || f.document("b") == nil {
		t.Errorf("revision %d, documents %v and %v", v.Revision, f.document("a"), f.document("b"))
	}
}
