package mongorules

import (
	"flag"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// The suite passes.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range rulestest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			// A database for each check, because the test server scans whole
			// collections.
			config := Config{History: 40, HistoryBytes: 256 << 10}
			f := newFixture(t, config)
			c.Run(t, rulestest.Subject{
				Editor:  f.Source,
				Open:    func(testing.TB) rules.Editor { return f.open(config) },
				Corrupt: f.corrupt, Lose: f.lose,
				History: 40, HistoryBytes: 256 << 10,
				Writers: 10, Changes: 50,
			})
		})
	}
}

// lose deletes everything of a rule set.
func (f *fixture) lose(t testing.TB, id string) {
	t.Helper()
	db := f.current()
	for _, c := range []*mongo.Collection{db.heads, db.history, db.docs, db.overrides} {
		_, err := c.DeleteMany(t.Context(), bson.M{"$or": bson.A{bson.M{"_id": id}, bson.M{"ruleSetId": id}}})
		must(t, err)
	}
}

// corrupt writes a document to the current snapshot.
func (f *fixture) corrupt(t testing.TB, id, document string) {
	t.Helper()
	h, err := f.fetchHead(t.Context(), id)
	must(t, err)
	_, err = f.current().history.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: snapshotID(id, h.Revision)}}, set("document", document))
	must(t, err)
}

var full = flag.Bool("full", false, "also run the checks that take minutes")

// Fifty writers make a thousand changes. The test server scans the whole history
// for each.
func TestConformance_FiftyWriters(t *testing.T) {
	if !*full {
		t.Skip("takes minutes: run it with -full")
	}
	f := newFixture(t, Config{})
	for _, c := range rulestest.Checks() {
		if c.Name == "concurrent writers lose no change and every version can be restored" {
			began := time.Now()
			c.Run(t, rulestest.Subject{Editor: f.Source, Open: func(testing.TB) rules.Editor { return f.open(Config{}) }})
			t.Logf("50 writers made 1,000 changes in %.1f s", time.Since(began).Seconds())
		}
	}
}
