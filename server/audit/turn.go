package audit

import (
	"errors"
	"time"
)

// patience is how long a write may take before it counts as hanging.
const patience = 5 * time.Second

var errHangs = errors.New("a write does not end: the disk or the server's log hangs")

// begin waits for the turn to use the file, unless the current user hangs.
func (l *Log) begin() error {
	wait := l.patience
	if l.hangs() {
		wait = 0
	}
	select {
	case l.turn <- struct{}{}:
	case <-time.After(wait):
		return errHangs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Now()
	return nil
}

// end ends the turn.
func (l *Log) end() {
	l.mu.Lock()
	l.since = time.Time{}
	l.mu.Unlock()
	<-l.turn
}

// hangs reports whether a write takes too long.
func (l *Log) hangs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.since.IsZero() && time.Since(l.since) >= l.patience
}

// within waits for a function as long as a write may take. If it hangs, its
// goroutine is left behind.
func (l *Log) within(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(l.patience):
		return errHangs
	}
}
