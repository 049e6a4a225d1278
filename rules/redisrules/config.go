package redisrules

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

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
	// Timeout bounds an operation, including the wait for a connection,
	// independently of the client's timeouts. 0 means 5s.
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
