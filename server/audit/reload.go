package audit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reload opens the file again, also after it was closed, and writes what was only
// counted. If the audit is broken, it tries to write a record about the gap.
func (l *Log) Reload() error {
	err := l.within(func() error {
		if l.file != nil {
			if err := l.reopen(); err != nil {
				return err
			}
		}
		return l.writeCounted()
	})
	if err != nil {
		return fmt.Errorf("reopening the audit file: %w", err)
	}
	return nil
}

func (l *Log) reopen() error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.end()
	if err := l.file.open(); err != nil {
		return err
	}
	return l.append(nil)
}

// writeCounted writes the counts of the throttle before the minute is over.
func (l *Log) writeCounted() error {
	l.mu.Lock()
	due := l.throttle.end(time.Now())
	l.mu.Unlock()
	return l.writeAll(context.Background(), due)
}

// Close writes what was only counted and closes the file. It waits at most five
// seconds for a disk that hangs.
func (l *Log) Close() error {
	err := l.within(func() error {
		err := l.writeCounted()
		if l.file == nil {
			return err
		}
		if turn := l.begin(); turn != nil {
			return turn
		}
		defer l.end()
		if l.file.to != nil {
			err = errors.Join(err, l.append(nil)) // the gap, if there is one
		}
		return errors.Join(err, l.file.close())
	})
	if err != nil {
		return fmt.Errorf("closing the audit: %w", err)
	}
	return nil
}
