package mongorules

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const readingDocuments = "reading the documents of a rule set"

// A document that one read misses is not a removed one, whatever its _id is: an editor
// has deleted and inserted it again, for instance.
func TestReconcile_ReadMissesADocument(t *testing.T) {
	other := func(key any, id string) bson.D {
		return bson.D{
			{Key: "_id", Value: key}, {Key: "id", Value: id}, {Key: "ruleSetId", Value: setID},
			{Key: "bands", Value: bson.A{bson.D{{Key: "capacity", Value: 2}, {Key: "refillSeconds", Value: 1}}}},
		}
	}
	for name, test := range map[string]struct {
		key     any
		kept    []string // other rules
		missing int      // in how many reads
		removed bool
	}{
		"an _id of FluxGate":    {key: "b", kept: []string{"a", "c"}, missing: 1},
		"another _id":           {key: bson.NewObjectID(), kept: []string{"a", "c"}, missing: 1},
		"the only rule":         {key: "b", missing: 1},
		"the only, another _id": {key: bson.NewObjectID(), missing: 1},
		"twice":                 {key: "b", kept: []string{"a"}, missing: 2, removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{Lease: 1})
			f.insert(other(test.key, "b"))
			for _, id := range test.kept {
				f.insert(other(id, id))
			}
			f.reconcileNow()
			want, reads := capacities(f.load().RuleSet), 0
			var kept bson.Raw
			reader := f.handle(Config{Lease: 1})
			reader.config.step = func(doing string) error {
				if doing != readingDocuments {
					return nil
				}
				var err error
				switch reads++; reads {
				case 1:
					if kept, err = f.current().docs.FindOne(t.Context(), bson.M{"_id": test.key}).Raw(); err == nil {
						_, err = f.current().docs.DeleteOne(t.Context(), bson.M{"_id": test.key})
					}
				case test.missing + 1:
					_, err = f.current().docs.InsertOne(t.Context(), kept)
				}
				return err
			}
			must(t, reconcile(t.Context(), reader))
			for range 3 {
				f.reconcileNow()
			}
			v := f.load()
			if got := capacities(v.RuleSet); (got != want) != test.removed {
				t.Errorf("after revision %d by %s, %q: %s, before %s", v.Revision, v.Author, v.Comment, got, want)
			}
			f.consistent()
		})
	}
}

// Documents that are gone in another way at each read are left to the next call.
func TestReconcile_DocumentsKeepChanging(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(rule("a", 1), rule("b", 2), rule("c", 3))
	all, err := findAll[bson.Raw](t.Context(), f.current().docs, bson.M{})
	must(t, err)
	reads, flaky := 0, f.handle(Config{Lease: 1})
	flaky.config.step = func(doing string) error {
		if doing == readingDocuments {
			_, err := f.current().docs.DeleteMany(t.Context(), bson.M{})
			must(t, err)
			f.insert(all[reads%3], all[(reads+1)%3])
			reads++
		}
		return nil
	}
	if err := reconcile(t.Context(), flaky); err == nil || reads > 6 {
		t.Errorf("after %d reads: %v", reads, err)
	}
	if h := f.headNow(); h.Revision != 1 {
		t.Errorf("revision %d by %s: %s", h.Revision, h.Author, h.Comment)
	}
}

// Documents are read along an index whose entries do not move. A server that does not
// have it yet has that of _id.
func TestDocuments_ReadAlongUnmovedIndex(t *testing.T) {
	f := newFixture(t, Config{})
	f.put(rule("a", 1), rule("b", 2))
	var mu sync.Mutex
	hints := map[string]int{}
	client, err := mongo.Connect(options.Client().ApplyURI(f.uri).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			mu.Lock()
			defer mu.Unlock()
			if name, ok := e.Command.Lookup("find").StringValueOK(); ok && name == f.current().docs.Name() {
				hints[e.Command.Lookup("hint").String()]++
			}
		},
	}))
	must(t, err)
	defer func() { must(t, client.Disconnect(context.Background())) }()
	s, err := New(t.Context(), client.Database(f.db.Name()), f.config)
	must(t, err)
	for _, noIndex := range []bool{false, true} {
		clear(hints)
		refused := false
		s.config.step = func(doing string) error {
			if refused = noIndex && doing == readingDocuments && !refused; refused {
				return mongo.CommandError{Code: 2, Name: "BadValue", Message: "hint provided does not correspond to an existing index"}
			}
			return nil
		}
		_, err = s.Put(t.Context(), newSet(t, setID, rule("a", 3), rule("b", 4)), by(f.base()))
		must(t, err)
		must(t, reconcile(t.Context(), s))
		want := `{"ruleSetId": {"$numberInt":"1"},"_id": {"$numberInt":"1"}}`
		if noIndex {
			want = `{"_id": {"$numberInt":"1"}}`
		}
		if len(hints) != 1 || hints[want] < 3 {
			t.Errorf("without the index: %t: documents are read along %v", noIndex, fmt.Sprint(hints))
		}
	}
	f.consistent()
}
