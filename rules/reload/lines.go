package reload

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxLines is how many lines with different errors are collected. Further ones with the same
	// message share one.
	maxLines = 8
	// firstNames is how many rule sets a line names.
	firstNames = 5
	// longestWait is how long a line waits for more rule sets.
	longestWait = 5 * time.Second
)

// lines collects log lines about rule sets. Those that say the same become one, since an outage
// of the source is about all rule sets.
type lines struct {
	logger *slog.Logger

	mu    sync.Mutex
	since time.Time // when the first of them was added
	all   map[string]*line
}

type line struct {
	level    slog.Level
	message  string
	ruleSets []string
	args     []any // of the first rule set by name
}

func (r *Reloader) newLines() *lines { return &lines{logger: r.config.Logger, all: map[string]*line{}} }

// add adds a line about a rule set. err may be nil.
func (l *lines) add(level slog.Level, message, ruleSet string, err error, args ...any) {
	key := message
	if err != nil {
		key += err.Error()
		args = append(args, "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[key] == nil && len(l.all) >= maxLines {
		key = message
	}
	of := l.all[key]
	if of == nil {
		of = &line{level: level, message: message}
		l.all[key] = of
	}
	of.ruleSets = append(of.ruleSets, ruleSet)
	if ruleSet <= of.ruleSets[0] { // the smallest is kept first
		of.ruleSets[0], of.ruleSets[len(of.ruleSets)-1] = ruleSet, of.ruleSets[0]
		of.args = args
	}
	if l.since.IsZero() {
		l.since = time.Now()
	}
	if time.Since(l.since) > longestWait {
		l.flush()
	}
}

// write logs the lines.
func (l *lines) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
}

// flush logs the lines. The lock is held.
func (l *lines) flush() {
	for _, key := range slices.Sorted(maps.Keys(l.all)) {
		of := l.all[key]
		args := []any{"ruleSet", of.ruleSets[0]}
		if n := len(of.ruleSets); n > 1 {
			slices.Sort(of.ruleSets)
			args = []any{"ruleSets", n, "first", of.ruleSets[:min(n, firstNames)]}
		}
		l.logger.Log(context.Background(), of.level, of.message, append(args, of.args...)...)
	}
	clear(l.all)
	l.since = time.Time{}
}
