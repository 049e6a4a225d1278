package mongorules

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }

// fixture is a test database, accessed by the raw driver and by any number of
// sources.
type fixture struct {
	*testing.T
	uri string
	db  *mongo.Database
	*Source
}

func newFixture(t *testing.T, config Config) *fixture {
	t.Helper()
	return newFixtureOn(t, testenv.SharedMongo(t).URI(), config)
}

func newFixtureOn(t *testing.T, uri string, config Config) *fixture {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	must(t, err)
	f := &fixture{T: t, uri: uri, db: client.Database("test-" + strings.ToLower(rand.Text()[:16]))}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = f.db.Drop(ctx)
		must(t, client.Disconnect(ctx))
	})
	f.Source = f.open(config)
	return f
}

// open returns another source of the same rules, like that of another gateway.
func (f *fixture) open(config Config) *Source {
	f.Helper()
	config.Database = f.db.Name()
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second // for slow machines
	}
	s, err := Open(f.Context(), f.uri, config)
	must(f.T, err)
	f.Cleanup(func() { must(f.T, s.Close()) })
	s.makeIndexes(f.Context())
	return s
}

// fresh returns a fixture with another database on the same connections.
func (f *fixture) fresh(t *testing.T, config Config) *fixture {
	t.Helper()
	g := &fixture{T: t, uri: f.uri, db: f.db.Client().Database("test-" + strings.ToLower(rand.Text()[:16]))}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = g.db.Drop(ctx)
	})
	g.Source = g.handle(config)
	return g
}

// handle returns another source of the same rules on the same connections.
func (f *fixture) handle(config Config) *Source {
	f.Helper()
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	step := config.step
	config.step = nil // creating indexes is not a step
	s, err := New(f.Context(), f.db, config)
	must(f.T, err)
	s.makeIndexes(f.Context())
	s.config.step = step
	return s
}

// sameCollections returns a source like that of another server, without any calls.
func (f *fixture) sameCollections() *Source {
	s := &Source{config: f.config, name: rand.Text(), writing: semaphore.NewWeighted(1)}
	s.latest.Store(f.current())
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const setID = "api-limits"

func rule(id string, capacity int64) rules.Rule {
	return rules.Rule{
		ID: id, Paths: []string{"/api/*"}, Methods: []string{"GET"}, Scope: rules.ScopeIP,
		Bands: []rules.Band{{Label: "per-second", Capacity: capacity, Refill: time.Second}},
	}
}

func newSet(t testing.TB, id string, all ...rules.Rule) *rules.Set {
	t.Helper()
	set, err := rules.NewSet(id, all...)
	must(t, err)
	return set
}

// put makes rules current, based on the current revision.
func (f *fixture) put(all ...rules.Rule) int64 {
	f.Helper()
	revision, err := f.Put(f.Context(), newSet(f, setID, all...), by(f.base()))
	must(f.T, err)
	return revision
}

func by(base int64) rules.Change { return rules.Change{Base: base, Author: "ann", Comment: "why not"} }

func (f *fixture) base() int64 {
	f.Helper()
	h := f.headNow()
	if h == nil || h.Deleted {
		return 0
	}
	return h.Revision
}

func (f *fixture) headNow() *head {
	f.Helper()
	h, err := f.fetchHead(f.Context(), setID)
	must(f.T, err)
	return h
}

// load returns the current version as another gateway reads it.
func (f *fixture) load() *rules.Version {
	f.Helper()
	v, err := f.Load(f.Context(), setID)
	must(f.T, err)
	return v
}

func text(t testing.TB, set *rules.Set) string {
	t.Helper()
	data, err := json.Marshal(set)
	must(t, err)
	return string(data)
}

// capacities returns the capacities of the rules by rule id.
func capacities(set *rules.Set) string {
	var all []string
	for r := range set.Rules() {
		all = append(all, fmt.Sprintf("%s=%d", r.ID, r.Bands[0].Capacity))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// shell edits a document like a user of a shell.
func (f *fixture) shell(id string, update bson.D) {
	f.Helper()
	result, err := f.current().docs.UpdateOne(f.Context(), bson.D{{Key: "_id", Value: id}}, update)
	must(f.T, err)
	if result.MatchedCount != 1 {
		f.Fatalf("document %s does not exist", id)
	}
}

func set(name string, value any) bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: name, Value: value}}}}
}

// findAll reads all documents that a filter matches.
func findAll[T any](ctx context.Context, c *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) ([]T, error) {
	cursor, err := c.Find(ctx, filter, opts...)
	if err != nil {
		return nil, err
	}
	var all []T
	err = cursor.All(ctx, &all)
	return all, err
}

func (f *fixture) document(id string) bson.M {
	f.Helper()
	var doc bson.M
	err := f.current().docs.FindOne(f.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	must(f.T, err)
	return doc
}

// reconcile calls Reconcile once, like a server.
func reconcile(ctx context.Context, s rules.Reconciler) error {
	_, err := s.Reconcile(ctx, setID)
	return err
}

// consistent checks the data while no writer is active: the documents match the
// head, and the history has its revisions and nothing else.
func (f *fixture) consistent() {
	f.Helper()
	h := f.headNow()
	if h == nil {
		f.Fatal("the head is missing")
	}
	if h.Synced != h.Revision || h.Document != "" || len(h.Replaces)+len(h.Adds) > 0 {
		f.Errorf("the documents are at revision %d, the head at %d: %+v", h.Synced, h.Revision, h)
	}
	b, err := f.sameCollections().inspect(f.Context(), setID, h)
	must(f.T, err)
	if len(b.writes) > 0 || b.hasEdits() || len(b.raw)-len(b.ignored) != len(b.want) {
		f.Errorf("of %d documents %d are to be written, %d edited, %d removed", len(b.want), len(b.writes), len(b.edited), len(b.removed))
	}
	all, err := findAll[*head](f.Context(), f.current().history, bson.D{{Key: "ruleSetId", Value: setID}},
		options.Find().SetSort(bson.D{{Key: "revision", Value: -1}}))
	must(f.T, err)
	next := h.Revision
	for _, v := range all {
		if v.Revision != next {
			f.Errorf("the history has revision %d, want %d", v.Revision, next)
		}
		next--
	}
	if oldest := max(0, h.Revision-int64(f.config.History)); next != oldest {
		f.Errorf("the history ends before revision %d, want %d", next, oldest)
	}
}

// authors returns the authors of the revisions, newest first.
func (f *fixture) authors() string {
	f.Helper()
	entries, err := f.History(f.Context(), setID, 0, 0)
	must(f.T, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Author)
	}
	return strings.Join(all, " ")
}
