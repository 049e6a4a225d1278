package mongorules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fluxgate/fluxgate/rules"
)

// Source keeps rule sets in MongoDB.
type Source struct {
	config               Config
	name                 string        // as the holder of leases
	client               *mongo.Client // nil if it is the caller's
	docs, heads, history *mongo.Collection
	indexed              atomic.Bool
	leased               atomic.Bool // has held a lease
	writers              keyedMutex
	// warned has the ignored documents that were logged, reconciled the digest
	// of documents that were found to be as they should be, by rule set.
	warned, reconciled memo
}

var (
	_ rules.Editor     = (*Source)(nil)
	_ rules.Reconciler = (*Source)(nil)
)

// New keeps rule sets in a database. It creates missing indexes. It is not an
// error if MongoDB cannot be reached or does not permit that.
func New(ctx context.Context, db *mongo.Database, config Config) (*Source, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	strict := options.Collection().SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).SetWriteConcern(writeconcern.Majority())
	s := newSource(config, db.Collection(config.Collection, strict),
		db.Collection(config.Collection+"_heads", strict), db.Collection(config.Collection+"_history", strict))
	// Briefly: an unreachable MongoDB must not delay a start, and Reconcile
	// tries again.
	brief, cancel := context.WithTimeout(ctx, min(time.Second, s.config.Timeout))
	defer cancel()
	s.makeIndexes(brief)
	return s, ctx.Err()
}

func newSource(config Config, docs, heads, history *mongo.Collection) *Source {
	s := &Source{config: config, name: rand.Text(), docs: docs, heads: heads, history: history}
	for i := range s.writers {
		s.writers[i] = make(chan struct{}, 1)
	}
	return s
}

// Open is [New] with a client of its own, which [Source.Close] ends.
func Open(ctx context.Context, uri string, config Config) (*Source, error) {
	if config.Database == "" {
		config.Database = databaseOf(uri)
	}
	if len(config.Database) > maxNameLength || strings.ContainsAny(config.Database, "/\\. \"$*<>:|?\x00") {
		return nil, fmt.Errorf("mongorules: %.100q cannot be the name of a database", config.Database)
	}
	client, err := connect(uri)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, client.Database(config.Database), config)
	if err != nil {
		return nil, errors.Join(err, client.Disconnect(context.WithoutCancel(ctx)))
	}
	s.client = client
	return s, nil
}

// errURI shows neither the URI nor the driver's message: either may contain a
// password.
var errURI = errors.New("mongorules: the URI must be mongodb://user:password@host:port/database or mongodb+srv://…, " +
	"with percent signs for the characters : / ? # [ ] @ % in user and password")

func connect(uri string) (*mongo.Client, error) {
	if !strings.HasPrefix(uri, "mongodb://") && !strings.HasPrefix(uri, "mongodb+srv://") {
		return nil, errURI
	}
	settings := options.Client().ApplyURI(uri)
	if settings.Validate() != nil {
		return nil, errURI
	}
	if settings.AppName == nil {
		settings.SetAppName("fluxgate")
	}
	client, err := mongo.Connect(settings)
	if err != nil {
		return nil, errURI
	}
	return client, nil
}

// Close lets other servers reconcile at once, and ends the client if [Open]
// made it.
func (s *Source) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	if s.leased.Load() {
		// If this fails the leases end by themselves.
		_, _ = s.heads.UpdateMany(ctx, bson.M{"lease.holder": s.name}, bson.M{"$set": bson.M{"lease.until": int64(0)}})
	}
	if s.client == nil {
		return nil
	}
	return s.client.Disconnect(ctx)
}

// call sends one command to MongoDB, bounded by the timeout.
func (s *Source) call(ctx context.Context, doing string, send func(context.Context) error) error {
	if s.config.step != nil {
		if err := s.config.step(doing); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	if err := send(ctx); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// find reads all documents that a filter matches.
func find[T any](ctx context.Context, s *Source, doing string, c *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) (all []T, err error) {
	err = s.call(ctx, doing, func(ctx context.Context) error {
		cursor, err := c.Find(ctx, filter, opts...)
		if err == nil {
			err = cursor.All(ctx, &all)
		}
		return err
	})
	return all, err
}

// keyedMutex lets one goroutine of the process at a time change a rule set: the
// others would only lose the compare-and-set. Rule sets share the slots.
type keyedMutex [64]chan struct{}

var hashSeed = maphash.MakeSeed()

// lock waits for a rule set to be free.
func (m *keyedMutex) lock(ctx context.Context, id string) (unlock func(), err error) {
	slot := m[maphash.String(hashSeed, id)%uint64(len(m))]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memo remembers the last text of each of at most 1,000 rule sets.
type memo struct {
	mu    sync.Mutex
	texts map[string]string
}

// swap remembers a text, and returns the one before.
func (m *memo) swap(id, text string) (before string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.texts[id]
	if m.texts == nil || len(m.texts) >= 1_000 {
		m.texts = map[string]string{}
	}
	m.texts[id] = text
	return before
}

// makeIndexes creates missing indexes. It is tried again later if MongoDB
// cannot be reached.
func (s *Source) makeIndexes(ctx context.Context) {
	if s.indexed.Load() {
		return
	}
	err := s.Indexes(ctx)
	if err != nil {
		s.config.Logger.Warn("cannot create the indexes of the rules yet; will try again", "error", err)
	}
	s.indexed.Store(err == nil || forbidden(err))
}

// Indexes creates missing indexes. Without them everything works, but large
// collections are slow.
func (s *Source) Indexes(ctx context.Context) error {
	for _, index := range []struct {
		collection *mongo.Collection
		field      string
		order      int
	}{{s.docs, "enabled", 1}, {s.docs, "priority", -1}, {s.history, "revision", 1}} {
		// One at a time: FerretDB fails on several of which some exist.
		model := mongo.IndexModel{Keys: bson.D{{Key: "ruleSetId", Value: 1}, {Key: index.field, Value: index.order}}}
		err := s.call(ctx, "creating an index of "+index.collection.Name(), func(ctx context.Context) error {
			_, err := index.collection.Indexes().CreateOne(ctx, model)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forbidden reports whether MongoDB denied the user an operation.
func forbidden(err error) bool {
	const unauthorized = 13
	var reply mongo.ServerError
	return errors.As(err, &reply) && reply.HasErrorCode(unauthorized)
}
