package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Config is what a [Log] is made of. Its zero value works.
type Config struct {
	// File is where records go beside the server's log. Empty means nowhere.
	File string
	// Logger is the server's log. Nil means none.
	Logger *slog.Logger
	// Keep is how many records are kept in memory, at most 8 MiB of them. 0
	// means 1,000.
	Keep int
}

// maxKept is how much is kept in memory, in bytes.
const maxKept = 8 << 20

// Log keeps records. It is safe for concurrent use.
type Log struct {
	log  *slog.Logger
	keep int

	mu      sync.Mutex
	file    *file // nil if there is none
	broken  error
	missed  int // records that the file does not have
	written uint64
	recent  []Record // the oldest first
	size    int      // of recent, in bytes
}

// New opens a log. A file that cannot be opened is an error.
func New(config Config) (*Log, error) {
	if config.Keep < 0 {
		return nil, errors.New("a log cannot keep a negative number of records")
	}
	l := &Log{log: config.Logger, keep: config.Keep}
	if l.keep == 0 {
		l.keep = 1_000
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if config.File == "" {
		return l, nil
	}
	l.file = &file{name: config.File}
	if err := l.file.open(); err != nil {
		return nil, fmt.Errorf("opening the audit: %w", err)
	}
	return l, nil
}

// Write keeps a record, and numbers it. The error is that of the file; the
// record is in the server's log and in memory all the same.
func (l *Log) Write(ctx context.Context, r Record) error {
	r.bound()
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.Time = r.Time.UTC()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written++
	r.Seq = l.written
	level := slog.LevelInfo
	if r.Outcome == Refused || r.Outcome == Failed {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(ctx, level, "audit", r.attributes()...)
	l.remember(&r)
	if l.file == nil {
		return nil
	}
	if err := l.append(&r); err != nil {
		if l.broken == nil {
			l.log.ErrorContext(ctx, "the audit cannot be written: nothing can be changed until it can", "error", err)
		}
		l.missed++
		l.broken = fmt.Errorf("writing the audit: %w", err)
		return l.broken
	}
	l.missed, l.broken = 0, nil
	return nil
}

// append writes a record to the file, behind a line about those that are
// missing before it.
func (l *Log) append(r *Record) error {
	var lines []byte
	if l.missed > 0 {
		gap, err := line(&Record{
			Time: r.Time, Who: "fluxgate", Operation: "audit-gap", Outcome: Failed,
			Detail: fmt.Sprintf("%d records before this one could not be written here: they are in the server's log", l.missed),
		})
		if err != nil {
			return err
		}
		lines = gap
	}
	own, err := line(r)
	if err != nil {
		return err
	}
	return l.file.write(append(lines, own...))
}

func line(r *Record) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	return append(text, '\n'), nil
}

// remember keeps a record in memory.
func (l *Log) remember(r *Record) {
	l.recent = append(l.recent, *r)
	l.size += r.size()
	drop := 0
	for len(l.recent)-drop > l.keep || l.size > maxKept {
		l.size -= l.recent[drop].size()
		drop++
	}
	if drop > 0 {
		rest := copy(l.recent, l.recent[drop:])
		clear(l.recent[rest:]) // what was dropped is not held on to
		l.recent = l.recent[:rest]
	}
}

// Recent are the last records that are visible, the newest first: at most limit
// of those before a number, 0 being the newest. A limit that is not
// positive means all that are kept; visible may be nil.
func (l *Log) Recent(before uint64, limit int, visible func(*Record) bool) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []Record{}
	for i := len(l.recent) - 1; i >= 0; i-- {
		r := &l.recent[i]
		if limit > 0 && len(found) == limit {
			break
		}
		if (before == 0 || r.Seq < before) && (visible == nil || visible(r)) {
			found = append(found, *r)
		}
	}
	return found
}

// Broken is why the last record could not be written to the file, nil if it
// was. A record that can be written, or a reload, mends it.
func (l *Log) Broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// Reload opens the file anew, as after it was moved away. If that does not work
// the one that is open stays.
func (l *Log) Reload() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	if err := l.file.open(); err != nil {
		return fmt.Errorf("opening the audit anew: %w", err)
	}
	l.broken = nil
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.close()
}
