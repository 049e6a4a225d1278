package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Config configures a [Log]. Its zero value works.
type Config struct {
	// File gets the records beside the server's log. Empty means no file.
	File string
	// Logger is the server's log. It gets all records, whatever its level. Nil
	// means none.
	Logger *slog.Logger
	// Keep is how many records are kept in memory: as many changes and as many
	// others, at most 8 MiB each. 0 means 1,000.
	Keep int
	// MaxAnonymous is how many attempts of unauthenticated callers from one
	// address are recorded in a minute. Further ones are counted. 0 means 10.
	MaxAnonymous int
}

// Log keeps records. It is safe for concurrent use.
type Log struct {
	log      *slog.Logger
	keep     int
	patience time.Duration
	turn     chan struct{} // full while the file is used
	file     *file         // nil if there is none

	mu              sync.Mutex // not held during a write
	since           time.Time  // when the current turn began
	broken          error
	missed          int // records that are not in the file
	written         uint64
	changes, others ring
	throttle        anonymousThrottle
}

// New opens a log. A file that cannot be opened is an error.
func New(config Config) (*Log, error) {
	l := &Log{log: slog.New(slog.DiscardHandler), keep: config.Keep, patience: patience, turn: make(chan struct{}, 1)}
	if l.keep <= 0 {
		l.keep = 1_000
	}
	if l.throttle.max = config.MaxAnonymous; l.throttle.max <= 0 {
		l.throttle.max = 10
	}
	if config.Logger != nil {
		l.log = slog.New(allLevels{config.Logger.Handler()})
	}
	if config.File == "" {
		return l, nil
	}
	l.file = &file{name: config.File}
	if err := l.file.open(); err != nil {
		return nil, fmt.Errorf("opening the audit file: %w", err)
	}
	return l, nil
}

// allLevels passes records whatever the level of the server's log.
type allLevels struct{ slog.Handler }

func (allLevels) Enabled(context.Context, slog.Level) bool { return true }

// Write numbers and writes a record. The error is that of the file; the record is
// in the server's log and in memory in any case. Attempts of unauthenticated
// callers beyond the bound are only counted.
func (l *Log) Write(ctx context.Context, r Record) error {
	r.bound()
	now := time.Now()
	if r.Time.IsZero() {
		r.Time = now
	}
	r.Time = r.Time.UTC()
	var due []Record
	l.mu.Lock()
	if l.throttle.over(now) {
		due = l.throttle.end(now)
	}
	if !l.throttle.count(&r, now) {
		due = append(due, r)
	}
	l.mu.Unlock()
	return l.writeAll(ctx, due)
}

// writeAll writes records. The error is that of the last.
func (l *Log) writeAll(ctx context.Context, records []Record) error {
	var err error
	for i := range records {
		err = l.writeOne(ctx, &records[i])
	}
	return err
}

func (l *Log) writeOne(ctx context.Context, r *Record) error {
	if l.file == nil {
		l.record(ctx, r)
		return nil
	}
	err := l.begin()
	if err == nil {
		defer l.end()
	}
	l.record(ctx, r)
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
		l.log.ErrorContext(ctx,
			"cannot write the audit file: changes through the admin API are refused until it can be written", "error", err)
	}
	return broken
}

// record numbers a record, keeps it in memory and writes it to the server's log.
func (l *Log) record(ctx context.Context, r *Record) {
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

// append writes a record to the file, or none, after a line about the records
// that are missing before it. The caller has the turn.
func (l *Log) append(r *Record) error {
	l.mu.Lock()
	missed := l.missed
	l.mu.Unlock()
	var records []*Record
	if missed > 0 {
		records = append(records, &Record{
			Time: time.Now().UTC(), Who: "fluxgate", Operation: "audit-gap", Outcome: Failed,
			Detail: fmt.Sprintf("%d records before this one could not be written here: see the server's log", missed),
		})
	}
	if r != nil {
		records = append(records, r)
	}
	if len(records) == 0 {
		return nil
	}
	var lines []byte
	for _, record := range records {
		text, err := json.Marshal(record)
		if err != nil {
			return fmt.Errorf("encoding a record: %w", err)
		}
		lines = append(append(lines, text...), '\n')
	}
	if err := l.file.write(lines); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed -= missed // others may have failed in the meantime
	l.broken = nil
	return nil
}

// Recent returns the last visible records, newest first: at most limit of those
// with a number below before, where 0 means from the newest on. A limit that is
// not positive means all; visible may be nil.
func (l *Log) Recent(before uint64, limit int, visible func(*Record) bool) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Concat(l.changes.records, l.others.records)
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(b.Seq, a.Seq) })
	all = slices.DeleteFunc(all, func(r Record) bool { return before != 0 && r.Seq >= before || visible != nil && !visible(&r) })
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return append([]Record{}, all...)
}

// Broken returns why the last record is not in the file, or that a write hangs. It
// is nil again after a successful write, of the next record or by [Log.Reload].
func (l *Log) Broken() error {
	hangs := l.hangs()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil && hangs {
		return fmt.Errorf("writing the audit: %w", errHangs)
	}
	return l.broken
}
