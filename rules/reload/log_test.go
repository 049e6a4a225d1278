package reload_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules/reload"
)

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count is how many lines have a text in them.
func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Ids that callers invent share one log line a minute, whatever happens to
// them: they are not found, the source cannot be asked, or they are dropped.
// What happens to a configured rule set is always logged.
func TestLog_InventedIDs(t *testing.T) {
	for name, mood := range map[string]bool{"not found": false, "away": true} {
		t.Run(name, func(t *testing.T) {
			source, log := newMoody(), new(logged)
			put(t, source, "known", 1)
			r := start(t, source, reload.Config{RuleSets: []string{"known"}, Interval: never, IdleAfter: 10 * time.Millisecond, Logger: log.logger()})
			if mood {
				source.feel(away)
			}
			for i := range 50 {
				r.RuleSet(t.Context(), fmt.Sprintf("invented-%d", i))
			}
			until(t, "they are dropped", func() bool { return len(r.Status()) == 1 })
			if n := log.count("invented-"); n != 1 {
				t.Errorf("%d lines name invented ids", n)
			}
			if mood {
				_ = r.Reload(t.Context())
				if log.count("ruleSet=known") != 2 {
					t.Errorf("the log does not say that a configured rule set fails:\n%s", log.text.String())
				}
			}
		})
	}
}
