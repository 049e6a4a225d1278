package audit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reload opens the file anew, also after it was closed, and tells what was only
// counted. If it is broken, a line about the records that are missing shows
// whether it can be written now.
func (l *Log) Reload() error {
	err := l.within(func() error {
		if l.file != nil {
			if err := l.reopen(); err != nil {
				return err
			}
		}
		return l.tellCounted()
	})
	if err != nil {
		return fmt.Errorf("opening the audit anew: %w", err)
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

// tellCounted tells what strangers have tried, though the minute is not over.
func (l *Log) tellCounted() error {
	l.mu.Lock()
	due := l.strangers.end(time.Now())
	l.mu.Unlock()
	return l.put(context.Background(), due)
}

// Close tells what was only counted, and closes the file. It does not wait
// longer for a disk that hangs than a write may take.
func (l *Log) Close() error {
	err := l.within(func() error {
		err := l.tellCounted()
		if l.file == nil {
			return err
		}
		if turn := l.begin(); turn != nil {
			return turn
		}
		defer l.end()
		if l.file.to != nil {
			err = errors.Join(err, l.append(nil)) // of what is missing
		}
		return errors.Join(err, l.file.close())
	})
	if err != nil {
		return fmt.Errorf("closing the audit: %w", err)
	}
	return nil
}
