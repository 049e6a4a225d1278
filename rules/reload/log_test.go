package reload_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules/reload"
)

// logged collects log lines.
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

// count returns how many lines contain a text.
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

// Ids that callers invent share one log line a minute, whether they are not found
// or cannot be read. Events of a configured rule set are always logged.
func TestLog_InventedIDs(t *testing.T) {
	for name, mood := range map[string]bool{"not found": false, "away": true} {
		t.Run(name, func(t *testing.T) {
			source, log := newStubSource(), new(logged)
			put(t, source, "known", 1)
			r := start(t, source, reload.Config{RuleSets: []string{"known"}, Interval: never, Logger: log.logger()})
			if mood {
				source.failWith(away)
			}
			for i := range 50 {
				r.RuleSet(t.Context(), fmt.Sprintf("invented-%d", i))
			}
			if n := log.count("invented-"); n != 1 {
				t.Errorf("%d lines name invented ids", n)
			}
			if mood {
				_ = r.Reload(t.Context())
				if log.count("ruleSet=known") != 2 {
					t.Errorf("the log has no line for a configured rule set that fails:\n%s", log.text.String())
				}
			}
		})
	}
}

// Plain * and the bare id of a rule set are announcements, as other clients send
// them. Malformed messages are logged once.
func TestMessages_Plain(t *testing.T) {
	server := testenv.SharedStandalone(t)
	client, channel, source, log := newClient(t, server.Addr()), prefix(t)+":plain", newStubSource(), new(logged)
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{
		RuleSets: []string{"set"}, Strategy: reload.PubSub, Interval: never, Jitter: -1, Redis: client, Channel: channel, Logger: log.logger(),
	})
	until(t, "it listens", func() bool { return r.Stats().Subscribed == 1 })
	for i, payload := range []string{"*", "set", " set\n", " *\n", `{"ruleSetId":"set"}`} {
		put(t, source, "set", int64(i+2))
		if err := client.Publish(t.Context(), channel, payload).Err(); err != nil {
			t.Fatal(err)
		}
		until(t, "the change is in effect after "+payload, func() bool { return capacity(t, r, "set") == int64(i+2) })
	}
	for range 20 {
		for _, payload := range []string{"**", "not an id", `"set"`, "{", ""} {
			if err := client.Publish(t.Context(), channel, payload).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "all are counted", func() bool { return r.Stats().Messages.Malformed == 100 })
	if n := log.count("malformed"); n != 1 {
		t.Errorf("%d lines are about malformed messages", n)
	}
}
