package redisrules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/rules"
)

// Config configures a [Source]. Its zero value works.
type Config struct {
	// Prefix begins every key. Empty means "fluxgate". A redisstore may use the
	// same prefix: their keys never overlap.
	Prefix string
	// History is how many revisions of a rule set are kept, including the current
	// one. 0 means [rules.DefaultHistory].
	History int
	// HistoryBytes is how many bytes their documents have in total. The last
	// two are always kept. 0 means [rules.DefaultHistoryBytes].
	HistoryBytes int
	// Timeout bounds an operation, including the wait for a connection, if the client has
	// ContextTimeoutEnabled. Otherwise its own timeouts bound it too. 0 means 5s.
	Timeout time.Duration
}

// Largest accepted settings.
const maxHistory, maxHistoryBytes = 1_000_000, 1 << 40

func (c Config) withDefaults() (Config, error) {
	c.Prefix = cmp.Or(c.Prefix, "fluxgate")
	c.History = cmp.Or(c.History, rules.DefaultHistory)
	c.HistoryBytes = cmp.Or(c.HistoryBytes, rules.DefaultHistoryBytes)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	switch {
	case strings.ContainsAny(c.Prefix, "{}") || len(c.Prefix) > 64:
		return c, errors.New("a prefix must have at most 64 bytes and no braces")
	case c.History < 1 || c.History > maxHistory:
		return c, fmt.Errorf("History must be 1 to %d revisions, not %d", maxHistory, c.History)
	case c.HistoryBytes < 1 || c.HistoryBytes > maxHistoryBytes:
		return c, fmt.Errorf("HistoryBytes must be 1 to %d, not %d", int64(maxHistoryBytes), c.HistoryBytes)
	case c.Timeout < time.Millisecond:
		return c, fmt.Errorf("the timeout must be at least 1ms, not %v", c.Timeout)
	}
	return c, nil
}

// Source keeps rule sets in Redis. Its methods may be called concurrently, by any
// number of processes.
type Source struct{ database }

// database is data in Redis.
type database struct {
	client redis.UniversalClient
	config Config
}

var _ rules.Editor = (*Source)(nil)

// New returns a source that uses a client. It sends nothing yet. The caller closes
// the client after the last use of the source.
func New(client redis.UniversalClient, config Config) (*Source, error) {
	db, err := open(client, config)
	if err != nil {
		return nil, fmt.Errorf("rule sets in Redis: %w", err)
	}
	return &Source{db}, nil
}

func open(client redis.UniversalClient, config Config) (database, error) {
	if client == nil {
		return database{}, errors.New("the client is nil")
	}
	config, err := config.withDefaults()
	return database{client: client, config: config}, err
}

// key returns a key in Redis. All keys have one hash tag, so that they are in one
// slot of a cluster and a script can use them. The tags of redisstore's buckets
// have at most four characters.
func (s *database) key(name string) string { return s.config.Prefix + ":{rules}:" + name }

// unreadable is the revision of a rule set with a damaged head. No rule set has it,
// so a caller loads the rule set and gets the error, and other rule sets are not
// affected.
const unreadable = -1

// Revisions implements [rules.Source].
func (s *Source) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	var fields []string
	for _, id := range rules.ValidIDs(ids) {
		fields = append(fields, id, commitField(id))
	}
	found, err := s.fields(ctx, "heads", fields)
	if err != nil {
		return nil, fmt.Errorf("reading the revisions of %d rule sets: %w", len(ids), err)
	}
	heads := make(map[string]rules.Head, len(ids))
	for _, id := range ids {
		text, known := found[id]
		if !known {
			continue
		}
		head, err := parseHead(text)
		if err != nil {
			head.Revision = unreadable
		}
		head.Commit = parseCommit(head.Revision, found[commitField(id)])
		heads[id] = head
	}
	return heads, nil
}

// commitField is the field with the commit of a rule set. No id is one.
func commitField(id string) string { return ":" + id }

// fields returns fields of a hash, with one HMGET.
func (s *database) fields(ctx context.Context, name string, fields []string) (map[string]string, error) {
	if len(fields) == 0 {
		return nil, ctx.Err()
	}
	found, err := within(ctx, s.config, func(ctx context.Context) (reply, error) {
		return s.client.HMGet(ctx, s.key(name), fields...).Result()
	})
	values := make(map[string]string, len(fields))
	for i, field := range fields {
		if text, there := found.text(i); there {
			values[field] = text
		}
	}
	return values, err
}

// Load implements [rules.Source].
func (s *Source) Load(ctx context.Context, id string) (*rules.Version, error) {
	v, err := s.version(ctx, id, 0)
	if err == nil && v.Deleted {
		err = fmt.Errorf("it was deleted: %w", rules.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("loading rule set %q: %w", id, err)
	}
	return v, nil
}

// Version implements [rules.Editor].
func (s *Source) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	if revision < 1 {
		return nil, fmt.Errorf("loading revision %d of rule set %q: %w", revision, id, rules.ErrNotFound)
	}
	v, err := s.version(ctx, id, revision)
	if err != nil {
		return nil, fmt.Errorf("loading revision %d of rule set %q: %w", revision, id, err)
	}
	return v, nil
}

// version reads a revision; 0 is the current one.
func (s *Source) version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	if !rules.ValidID(id) {
		return nil, rules.ErrNotFound
	}
	which := ""
	if revision > 0 {
		which = strconv.FormatInt(revision, 10)
	}
	found, err := s.run(ctx, loadScript, []string{s.key("heads"), s.key("history:" + id), s.key("documents:" + id)},
		id, which, rules.MaxDocument)
	if err != nil {
		return nil, err
	}
	text, ok := found.text(0)
	if !ok {
		return nil, rules.ErrNotFound
	}
	head, err := parseHead(text)
	if err != nil {
		return nil, damaged(id, 0, err)
	}
	line, ok := found.text(1)
	switch {
	case revision > head.Revision, revision > 0 && !ok:
		return nil, rules.ErrNotFound
	case revision == 0 || revision == head.Revision:
		revision = head.Revision
	default:
		head = rules.Head{} // a former revision has no head
	}
	return readVersion(id, revision, head, line, found)
}

// readVersion decodes the result of the script. The line must agree with the head,
// if that is known.
func readVersion(id string, revision int64, head rules.Head, line string, found reply) (*rules.Version, error) {
	entry, err := parseLine(id, line)
	if err != nil {
		return nil, damaged(id, revision, err)
	}
	if entry.Revision != revision || head.Revision != 0 && entry.Deleted != head.Deleted {
		return nil, damaged(id, revision, errors.New("its line of history is for another revision"))
	}
	document, ok := found.text(3)
	if !ok && !entry.Deleted {
		var length int64
		if len(found) > 2 {
			length, _ = found[2].(int64)
		}
		return nil, damaged(id, revision, fmt.Errorf("its document has %d bytes; 1 to %d can be read", length, rules.MaxDocument))
	}
	version, err := rules.Decode(entry, []byte(document))
	if err != nil {
		return nil, damaged(id, revision, err)
	}
	return version, nil
}

// damaged returns an error about data in Redis that FluxGate did not write, or that
// is not a valid rule set.
func damaged(id string, revision int64, err error) error {
	if revision == 0 {
		return fmt.Errorf("rule set %q is damaged in Redis: %w", id, err)
	}
	return fmt.Errorf("rule set %q is damaged in Redis at revision %d: %w", id, revision, err)
}
