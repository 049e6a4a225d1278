package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Unauthenticated is the name of callers without a valid identity.
const Unauthenticated = "unauthenticated"

// maxAnonymous is how many attempts of unauthenticated callers are recorded in a
// minute, so that they cannot fill the disk.
const maxAnonymous = 100

// Log writes records. It is safe for concurrent use.
type Log struct {
	log  *slog.Logger
	file string // empty: none

	writing   sync.Mutex // held during a write: the file has the records in order
	torn      bool       // the last write was incomplete
	written   uint64
	began     time.Time // of the minute in which anonymous attempts are counted
	anonymous int

	broken atomic.Pointer[error] // points to nil if the last write succeeded
}

// New returns a log that writes to the server's log, whatever its level, and to a
// file unless its name is empty. A file that cannot be opened is an error.
func New(file string, log *slog.Logger) (*Log, error) {
	l := &Log{log: slog.New(allLevels{log.Handler()}), file: file}
	l.broken.Store(new(error))
	if err := l.append(nil); err != nil {
		return nil, fmt.Errorf("opening the audit file: %w", err)
	}
	return l, nil
}

// allLevels passes records whatever the level of the server's log.
type allLevels struct{ slog.Handler }

func (allLevels) Enabled(context.Context, slog.Level) bool { return true }

// Write numbers and writes a record. An error of the file is logged, and returned by
// [Log.Broken]. Attempts of unauthenticated callers beyond the bound are only counted.
func (l *Log) Write(ctx context.Context, r Record) {
	r.bound()
	l.writing.Lock()
	defer l.writing.Unlock()
	if now := time.Now(); now.Sub(l.began) >= time.Minute {
		more := l.anonymous - maxAnonymous
		began := l.began.UTC().Format(time.RFC3339)
		l.began, l.anonymous = now, 0
		if more > 0 {
			l.write(ctx, &Record{
				Who: Unauthenticated, Operation: "audit-more", Outcome: Refused,
				Detail: fmt.Sprintf("%d more attempts were not recorded in the minute from %s.", more, began),
			})
		}
	}
	if r.Who == Unauthenticated && r.Outcome != Changed {
		if l.anonymous++; l.anonymous > maxAnonymous {
			return
		}
	}
	l.write(ctx, &r)
}

func (l *Log) write(ctx context.Context, r *Record) {
	l.written++
	r.Seq, r.Time = l.written, time.Now().UTC()
	level := slog.LevelInfo
	if r.Outcome == Refused || r.Outcome == Failed {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(ctx, level, "audit", r.attributes()...)
	line, err := json.Marshal(r)
	if err == nil {
		err = l.append(append(line, '\n'))
	}
	if err != nil {
		l.log.ErrorContext(ctx,
			"cannot write to the audit file: the admin API rejects changes until it can be written",
			"seq", r.Seq, "error", err)
		err = fmt.Errorf("writing the audit: %w", err)
	}
	l.broken.Store(&err)
}

// append appends a line to the file in one write. An incomplete line stays a line of its
// own.
func (l *Log) append(line []byte) error {
	if l.file == "" {
		return nil
	}
	file, err := os.OpenFile(l.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := file.Write(line)
	if n > 0 {
		l.torn = n < len(line)
	}
	return errors.Join(err, file.Close())
}

// Broken returns why the last record is not in the file. It is nil again after a
// successful write.
func (l *Log) Broken() error {
	return *l.broken.Load()
}
