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
	// Logger is the server's log. Records pass whatever its level is. Nil means
	// none.
	Logger *slog.Logger
	// Keep is how many records are kept in memory: so many changes, and as many
	// others, at most 8 MiB of each. 0 means 1,000.
	Keep int
	// Strangers is how many records [Nobody] gets from one address in a minute.
	// Those beyond are counted. 0 means 10.
	Strangers int
}

// Log keeps records. It is safe for concurrent use.
type Log struct {
	log      *slog.Logger
	keep     int
	patience time.Duration
	turn     chan struct{} // full while somebody touches the file
	file     *file         // nil if there is none

	mu              sync.Mutex // is not held while anything is written
	since           time.Time  // when who has the turn got it
	broken          error
	missed          int // records that the file does not have
	written         uint64
	changes, others ring
	strangers       strangers
}

// New opens a log. A file that cannot be opened is an error.
func New(config Config) (*Log, error) {
	if config.Keep < 0 || config.Strangers < 0 {
		return nil, errors.New("a log cannot keep a negative number of records")
	}
	l := &Log{log: slog.New(slog.DiscardHandler), keep: config.Keep, patience: patience, turn: make(chan struct{}, 1)}
	if l.keep == 0 {
		l.keep = 1_000
	}
	if l.strangers.most = config.Strangers; l.strangers.most == 0 {
		l.strangers.most = 10
	}
	if config.Logger != nil {
		l.log = slog.New(everything{config.Logger.Handler()})
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

// everything lets records pass that are below the level of the server's log.
type everything struct{ slog.Handler }

func (everything) Enabled(context.Context, slog.Level) bool { return true }

// Write keeps a record, and numbers it. The error is that of the file; the
// record is in the server's log and in memory all the same. One too many of
// [Nobody] is only counted.
func (l *Log) Write(ctx context.Context, r Record) error {
	r.bound()
	now := time.Now()
	if r.Time.IsZero() {
		r.Time = now
	}
	r.Time = r.Time.UTC()
	var due []Record
	l.mu.Lock()
	if l.strangers.over(now) {
		due = l.strangers.end(now)
	}
	if !l.strangers.count(&r, now) {
		due = append(due, r)
	}
	l.mu.Unlock()
	return l.put(ctx, due)
}

// put keeps records one by one. The error is that of the last.
func (l *Log) put(ctx context.Context, records []Record) error {
	var err error
	for i := range records {
		err = l.keepOne(ctx, &records[i])
	}
	return err
}

func (l *Log) keepOne(ctx context.Context, r *Record) error {
	if l.file == nil {
		l.tell(ctx, r)
		return nil
	}
	err := l.begin()
	if err == nil {
		defer l.end()
	}
	l.tell(ctx, r)
	if err == nil {
		err = l.append(r)
	}
	if err == nil {
		return nil
	}
	l.mu.Lock()
	first := l.broken == nil
	broken := fmt.Errorf("writing the audit: %w", err)
	l.missed++
	l.broken = broken
	l.mu.Unlock()
	if first {
		l.log.ErrorContext(ctx, "the audit cannot be written: nothing can be changed until it can", "error", err)
	}
	return broken
}

// tell numbers a record, and puts it into memory and the server's log.
func (l *Log) tell(ctx context.Context, r *Record) {
	l.mu.Lock()
	l.written++
	r.Seq = l.written
	if r.Outcome == Changed {
		l.changes.add(r, l.keep)
	} else {
		l.others.add(r, l.keep)
	}
	l.mu.Unlock()
	level := slog.LevelInfo
	if r.Outcome == Refused || r.Outcome == Failed {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(ctx, level, "audit", r.attributes()...)
}

// append writes a record to the file, or none, behind a line about those that
// are missing before it. It is for who has the turn.
func (l *Log) append(r *Record) error {
	l.mu.Lock()
	missed := l.missed
	l.mu.Unlock()
	var lines []byte
	if missed > 0 {
		gap, err := line(&Record{
			Time: time.Now().UTC(), Who: "fluxgate", Operation: "audit-gap", Outcome: Failed,
			Detail: fmt.Sprintf("%d records before this one could not be written here: they are in the server's log", missed),
		})
		if err != nil {
			return err
		}
		lines = gap
	}
	if r != nil {
		own, err := line(r)
		if err != nil {
			return err
		}
		lines = append(lines, own...)
	}
	if len(lines) == 0 {
		return nil
	}
	if err := l.file.write(lines); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed -= missed // others may have given up in the meantime
	l.broken = nil
	return nil
}

func line(r *Record) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	return append(text, '\n'), nil
}

// Recent are the last records that are visible, the newest first: at most limit
// of those before a number, 0 being the newest. A limit that is not
// positive means all that are kept; visible may be nil.
func (l *Log) Recent(before uint64, limit int, visible func(*Record) bool) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []Record{}
	newestFirst(l.changes.records, l.others.records, func(r *Record) bool {
		if (before == 0 || r.Seq < before) && (visible == nil || visible(r)) {
			found = append(found, *r)
		}
		return limit <= 0 || len(found) < limit
	})
	return found
}

// Broken is why the last record could not be written to the file, or that a
// write hangs; nil if all is well. What mends it is a write that works: of the
// next record, or of a reload.
func (l *Log) Broken() error {
	hangs := l.hangs()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil && hangs {
		return fmt.Errorf("writing the audit: %w", errHangs)
	}
	return l.broken
}
