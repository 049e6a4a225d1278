package mongorules

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	config   Config
	client   *mongo.Client // nil if it is somebody else's
	docs     *mongo.Collection
	heads    *mongo.Collection
	versions *mongo.Collection
	claims   *mongo.Collection
	indexed  atomic.Bool
	turns    turns
	// unfinished is what was logged about documents that are left alone.
	unfinished warnings
}

var (
	_ rules.Editor = (*Source)(nil)
	_ rules.Mender = (*Source)(nil)
)

// New keeps rule sets in a database. It makes the indexes that are missing. A
// server that is away, or does not let it, is no error: whoever asks for rules
// will hear of it.
func New(ctx context.Context, db *mongo.Database, config Config) (*Source, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	strict := options.Collection().SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).SetWriteConcern(writeconcern.Majority())
	s := &Source{
		config:   config,
		docs:     db.Collection(config.Collection, strict),
		heads:    db.Collection(config.Collection+"_heads", strict),
		versions: db.Collection(config.Collection+"_history", strict),
		claims:   db.Collection(config.Collection+"_ids", strict),
	}
	// Not for long: a server that is away must not hold up a start, and Mend
	// tries again.
	brief, cancel := context.WithTimeout(ctx, min(time.Second, s.config.Timeout))
	s.makeIndexes(brief)
	cancel()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// Open is [New] with a client of its own, which [Source.Close] ends.
func Open(ctx context.Context, uri string, config Config) (*Source, error) {
	name := config.Database
	if name == "" {
		name = databaseOf(uri)
	}
	if len(name) > maxNameLength || strings.ContainsAny(name, "/\\. \"$*<>:|?\x00") {
		return nil, fmt.Errorf("mongorules: %.100q cannot be the name of a database", name)
	}
	config.Database = name
	client, err := connect(uri)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, client.Database(name), config)
	if err != nil {
		return nil, errors.Join(err, client.Disconnect(context.WithoutCancel(ctx)))
	}
	s.client = client
	return s, nil
}

// errURI says nothing of the URI, nor what the driver says of it: there may be
// a password in it, and a URI that cannot be read does not say where.
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

// Close ends the client if [Open] made it.
func (s *Source) Close() error {
	if s.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	return s.client.Disconnect(ctx)
}

// call asks the server one thing, and no longer than it may take.
func (s *Source) call(ctx context.Context, doing string, ask func(context.Context) error) error {
	if s.config.step != nil {
		if err := s.config.step(doing); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	if err := ask(ctx); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// findAll reads everything that a filter finds.
func findAll[T any](ctx context.Context, c *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) ([]T, error) {
	cursor, err := c.Find(ctx, filter, opts...)
	if err != nil {
		return nil, err
	}
	var all []T
	err = cursor.All(ctx, &all)
	return all, err
}

// makeIndexes makes the indexes that are not there yet. It is tried again
// later if the server is away now.
func (s *Source) makeIndexes(ctx context.Context) {
	if s.indexed.Load() {
		return
	}
	err := s.Indexes(ctx)
	if err != nil {
		s.config.Logger.Warn("MongoDB has no indexes for the rules yet", "error", err)
	}
	s.indexed.Store(err == nil || forbidden(err))
}

// Indexes makes the indexes that are not there yet, and says what is wrong if
// it cannot. Without them everything works, and large collections slowly.
func (s *Source) Indexes(ctx context.Context) error {
	ensure := func(c *mongo.Collection, field string, order int) error {
		// One at a time: FerretDB fails on several of which some exist.
		model := mongo.IndexModel{Keys: bson.D{{Key: "ruleSetId", Value: 1}, {Key: field, Value: order}}}
		return s.call(ctx, "making an index of "+c.Name(), func(ctx context.Context) error {
			_, err := c.Indexes().CreateOne(ctx, model)
			return err
		})
	}
	err := ensure(s.docs, "enabled", 1)
	if err == nil {
		err = ensure(s.docs, "priority", -1)
	}
	if err == nil {
		err = ensure(s.versions, "revision", 1)
	}
	return err
}

// forbidden reports that the user may not do what was asked.
func forbidden(err error) bool {
	const unauthorized = 13
	var reply mongo.ServerError
	return errors.As(err, &reply) && reply.HasErrorCode(unauthorized)
}
