package mongorules

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Config is how a [Source] is made. Its zero value works.
type Config struct {
	// Database is where [Open] keeps the collections. Empty means the one
	// that the URI names, or else fluxgate.
	Database string
	// Collection is the collection of the rules' documents; the two others
	// are named after it. Empty means rate_limit_rules.
	Collection string
	// History is how many revisions of a rule set are kept. 0 means
	// [rules.DefaultHistory].
	History int
	// HistoryBytes is how many bytes their documents have together. The last
	// two are kept whatever their size. 0 means [rules.DefaultHistoryBytes].
	HistoryBytes int
	// Lease is after what time without a look at the documents another server
	// takes over from one that has ended. Use the polling interval of the
	// servers. 0 means 30 seconds.
	Lease time.Duration
	// Timeout bounds every call of MongoDB. 0 means 5 seconds.
	Timeout time.Duration
	// Logger gets imported edits and what is repaired. Nil means
	// slog.Default().
	Logger *slog.Logger
	// Now is the clock for revisions and leases. Nil means the machine's.
	Now func() time.Time

	// step is called before every call of MongoDB, with what it does. Tests
	// end or hold a writer there.
	step func(doing string) error
	// batch is how many documents are written at once. 0 means 500.
	batch int
}

const maxNameLength = 100 // MongoDB's bound is on database and collection together

func (c Config) withDefaults() (Config, error) {
	c.Collection = cmp.Or(c.Collection, "rate_limit_rules")
	if len(c.Collection) > maxNameLength || strings.ContainsAny(c.Collection, "$\x00") || strings.HasPrefix(c.Collection, "system.") {
		return c, fmt.Errorf("mongorules: %.100q cannot be the name of a collection", c.Collection)
	}
	if c.History < 0 || c.HistoryBytes < 0 || c.Lease < 0 || c.Timeout < 0 {
		return c, errors.New("mongorules: History, HistoryBytes, Lease and Timeout cannot be negative")
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

// databaseOf is the database that a URI names.
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
