package mongorules

import (
	"bytes"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// digestOfFoobar is the digest of "foobar", as sha256sum prints it.
const digestOfFoobar = "sha256:c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"

// API keys that were written with a shell are replaced by their digests, once.
func TestAPIKeys_WrittenWithAShell(t *testing.T) {
	keys := bson.A{"foobar", digestOfFoobar}
	byHand := append(javaDocument("a"), bson.E{Key: "when", Value: bson.D{{Key: "apiKeys", Value: keys}, {Key: "ticket", Value: 7}}})
	withKey := rule("a", 1)
	withKey.When.APIKeys = []string{"foobar", digestOfFoobar}
	for name, c := range map[string]struct {
		write   func(f *fixture)
		authors string
	}{
		"in documents before the first revision": {func(f *fixture) { f.insert(byHand) }, "external"},
		"in a document that is added":            {func(f *fixture) { f.put(rule("b", 1)); f.insert(byHand) }, "external ann"},
		"in a document that is edited": {func(f *fixture) {
			f.put(rule("a", 1))
			f.shell("a", set("when", bson.D{{Key: "apiKeys", Value: keys}, {Key: "ticket", Value: 7}}))
		}, "external ann"},
		// They have the same meaning: that is no edit.
		"replacing their digests": {func(f *fixture) {
			f.put(withKey)
			f.shell("a", set("when.apiKeys", keys))
			f.shell("a", set("when.ticket", 7))
		}, "ann"},
		"in a document with our own checksum of the keys": {func(f *fixture) {
			f.put(withKey)
			former := withKey
			former.RuleSetID = setID
			sum, err := checksum(former) // of the keys themselves
			must(f.T, err)
			f.shell("a", bson.D{{Key: "$set", Value: bson.D{{Key: "when.apiKeys", Value: keys}, {Key: "when.ticket", Value: 7}, {Key: checksumField, Value: sum}}}})
		}, "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{Lease: 1})
			c.write(f)
			for look := range 3 {
				f.reconcileNow()
				if got := f.authors(); got != c.authors {
					t.Fatalf("after %d calls of Reconcile the revisions are by %s, want %s", look+1, got, c.authors)
				}
			}
			f.consistent()
			for r := range f.load().RuleSet.Rules() {
				if r.ID == "a" && strings.Join(r.When.APIKeys, " ") != digestOfFoobar+" "+digestOfFoobar {
					t.Errorf("the keys were read as %q", r.When.APIKeys)
				}
			}
			if when := f.document("a")["when"].(bson.D); when[len(when)-1].Key != "ticket" {
				t.Errorf("the unknown field beside the keys is lost: %v", when)
			}
			if collection := f.holding("foobar"); collection != "" {
				t.Errorf("the key is still in %s", collection)
			}
			f.put(rule("b", 2)) // no edit is pending
			f.consistent()
		})
	}
}

// holding returns the name of a collection that contains a text, or "".
func (f *fixture) holding(text string) string {
	f.Helper()
	names, err := f.db.ListCollectionNames(f.Context(), bson.D{})
	must(f.T, err)
	for _, name := range names {
		all, err := findAll[bson.Raw](f.Context(), f.db.Collection(name), bson.D{}, options.Find())
		must(f.T, err)
		for _, doc := range all {
			if bytes.Contains(doc, []byte(text)) {
				return name
			}
		}
	}
	return ""
}
