package mongorules

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
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
	"golang.org/x/sync/semaphore"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/rules"
)

// Config configures a [Source]. Its zero value works.
type Config struct {
	// Database is the database that [Open] uses. Empty means the one in the
	// URI, or fluxgate.
	Database string
	// Collection is the collection of the rule documents; the others are named
	// after it. Empty means rate_limit_rules.
	Collection string
	// History is how many revisions of a rule set are kept. 0 means
	// [rules.DefaultHistory].
	History int
	// HistoryBytes is how many bytes their documents have in total. The last
	// two are always kept. 0 means [rules.DefaultHistoryBytes].
	HistoryBytes int
	// Lease is the time after which another server takes over from a server that
	// has stopped reconciling. Use the polling interval of the servers. 0 means 30
	// seconds.
	Lease time.Duration
	// Credentials returns the current user name and password, instead of those in the URI of
	// [Open]. It is called before every call to MongoDB, which uses them. Nil means that they
	// do not change.
	Credentials func() (user, password string)
	// Timeout bounds every call to MongoDB. 0 means 5 seconds.
	Timeout time.Duration
	// Logger gets a line for each import and repair. Nil means
	// slog.Default().
	Logger *slog.Logger
	// Now is the clock for revisions and leases. Nil means time.Now.
	Now func() time.Time

	// step is called before every call to MongoDB with its description. Tests
	// stop or delay a writer there.
	step func(doing string) error
	// batch is how many documents are written at once. 0 means 500.
	batch int
}

const maxNameLength = 100 // MongoDB limits database and collection name together

func (c Config) withDefaults() (Config, error) {
	c.Collection = cmp.Or(c.Collection, "rate_limit_rules")
	if len(c.Collection) > maxNameLength || strings.ContainsAny(c.Collection, "$\x00") || strings.HasPrefix(c.Collection, "system.") {
		return c, fmt.Errorf("mongorules: %.100q is not a valid collection name", c.Collection)
	}
	if c.History < 0 || c.HistoryBytes < 0 || c.Lease < 0 || c.Timeout < 0 {
		return c, errors.New("mongorules: History, HistoryBytes, Lease and Timeout must not be negative")
	}
	c.History = cmp.Or(c.History, rules.DefaultHistory)
	c.HistoryBytes = cmp.Or(c.HistoryBytes, rules.DefaultHistoryBytes)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.batch = cmp.Or(c.batch, 500)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// databaseOf returns the database in a URI.
func databaseOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "?")
	rest = rest[strings.LastIndex(rest, "@")+1:]
	_, name, _ := strings.Cut(rest, "/")
	name, err := url.PathUnescape(name)
	if err != nil || name == "" {
		return "fluxgate"
	}
	return name
}

// Source keeps rule sets in MongoDB.
type Source struct {
	config  Config
	name    string // as the holder of leases
	latest  atomic.Pointer[database]
	indexed atomic.Bool
	leased  atomic.Bool // has held a lease

	uri     string     // empty if the caller owns the client
	replace sync.Mutex // held while the client is replaced
	work    *background.Group
	writing *semaphore.Weighted // held while this process makes a change
	// By rule set: warned has the ignored documents that were logged,
	// reconciled what was verified.
	warned, reconciled sync.Map
}

// database is the collections of a client with its credentials.
type database struct {
	client               *mongo.Client // nil if the caller owns it
	user, password       string
	docs, heads, history *mongo.Collection
	overrides            *mongo.Collection
}

var _ rules.Editor = (*Source)(nil)
var _ rules.Reconciler = (*Source)(nil)

// New returns a source that uses a database. It sends nothing yet: [Source.Reconcile] creates
// missing indexes.
func New(ctx context.Context, db *mongo.Database, config Config) (*Source, error) {
	s, err := newSource(ctx, config)
	if err != nil {
		return nil, err
	}
	s.latest.Store(s.collections(db))
	return s, nil
}

func newSource(ctx context.Context, config Config) (*Source, error) {
	config, err := config.withDefaults()
	return &Source{config: config, name: holderPrefix + rand.Text(), work: background.New(ctx), writing: semaphore.NewWeighted(1)}, err
}

func (s *Source) collections(db *mongo.Database) *database {
	strict := options.Collection().SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).SetWriteConcern(writeconcern.Majority())
	name := s.config.Collection
	return &database{
		docs: db.Collection(name, strict), heads: db.Collection(name+"_heads", strict), history: db.Collection(name+"_history", strict),
		overrides: db.Collection(name+"_overrides", strict),
	}
}

// Open is [New] with its own client, which [Source.Close] closes.
func Open(ctx context.Context, uri string, config Config) (*Source, error) {
	config.Database = cmp.Or(config.Database, databaseOf(uri))
	if len(config.Database) > maxNameLength || strings.ContainsAny(config.Database, "/\\. \"$*<>:|?\x00") {
		return nil, fmt.Errorf("mongorules: %.100q is not a valid database name", config.Database)
	}
	s, err := newSource(ctx, config)
	if err != nil {
		return nil, err
	}
	s.uri = uri
	first, err := s.connect()
	if err != nil {
		return nil, err
	}
	s.latest.Store(first)
	return s, nil
}

// connect returns the database with the current credentials. It does not wait for MongoDB.
func (s *Source) connect() (*database, error) {
	uri, user, password := s.uri, "", ""
	if s.config.Credentials != nil {
		user, password = s.config.Credentials()
		scheme, rest, _ := strings.Cut(uri, "://")
		uri = scheme + "://" + url.UserPassword(user, password).String() + "@" + rest[strings.LastIndex(rest, "@")+1:]
	}
	client, err := mongo.Connect(options.Client().SetAppName("fluxgate").ApplyURI(uri))
	if err != nil {
		return nil, errURI
	}
	db := s.collections(client.Database(s.config.Database))
	db.client, db.user, db.password = client, user, password
	return db, nil
}

// current returns the database. If the credentials have changed it has a new client: the driver
// cannot change those of a client. Calls that have begun end with the former one.
func (s *Source) current() *database {
	former := s.latest.Load()
	if s.config.Credentials == nil || former.client == nil || !s.replace.TryLock() {
		return former
	}
	defer s.replace.Unlock()
	former = s.latest.Load()
	if user, password := s.config.Credentials(); user == former.user && password == former.password {
		return former
	}
	db, err := s.connect()
	if err != nil || !s.work.Go(func(ctx context.Context) {
		_ = background.Sleep(ctx, s.config.Timeout)
		_ = former.client.Disconnect(context.WithoutCancel(ctx))
	}) {
		return former
	}
	s.latest.Store(db)
	return db
}

// errURI shows neither the URI nor the driver's message: either may contain a
// password.
var errURI = errors.New("mongorules: the URI must be mongodb://user:password@host:port/database or mongodb+srv://…, " +
	"with percent-encoding of the characters : / ? # [ ] @ % in user and password")

// Close releases the leases, so that other servers reconcile at once, and closes
// the client if [Open] created it.
func (s *Source) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	if s.leased.Load() {
		// If this fails the leases expire.
		_, _ = s.current().heads.UpdateMany(ctx, bson.M{"lease.holder": s.name}, bson.M{"$set": bson.M{"lease.until": int64(0)}})
	}
	s.work.Close()
	if client := s.latest.Load().client; client != nil {
		return client.Disconnect(ctx)
	}
	return nil
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
func find[T any](
	ctx context.Context, s *Source, doing string, c *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions],
) (all []T, err error) {
	err = s.call(ctx, doing, func(ctx context.Context) error {
		cursor, err := c.Find(ctx, filter, opts...)
		if err == nil {
			err = cursor.All(ctx, &all)
		}
		return err
	})
	return all, err
}

// makeIndexes creates missing indexes, or tries again later if MongoDB cannot be
// reached.
func (s *Source) makeIndexes(ctx context.Context) {
	if s.indexed.Load() {
		return
	}
	err := s.Indexes(ctx)
	s.indexed.Store(err == nil || forbidden(err))
	if err != nil {
		s.config.Logger.Warn("cannot create the indexes of the rules; large collections are slow without them", "error", err)
	}
}

// Indexes creates missing indexes. Without them large collections are slow.
func (s *Source) Indexes(ctx context.Context) error {
	create := func(c *mongo.Collection, field string, order int) error {
		return s.call(ctx, "creating an index of "+c.Name(), func(ctx context.Context) error {
			_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "ruleSetId", Value: 1}, {Key: field, Value: order}}})
			return err
		})
	}
	// One at a time: FerretDB fails on several of which some exist.
	db := s.current()
	return cmp.Or(create(db.docs, "enabled", 1), create(db.docs, "priority", -1), create(db.docs, "_id", 1),
		create(db.history, "revision", 1), create(db.overrides, "revision", 1), create(db.overrides, "position", 1))
}

// forbidden reports whether MongoDB denied the user an operation.
func forbidden(err error) bool {
	var reply mongo.ServerError
	return errors.As(err, &reply) && reply.HasErrorCode(13) // Unauthorized
}
