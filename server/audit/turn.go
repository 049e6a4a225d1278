package audit

import (
	"errors"
	"time"
)

// patience is how long a write may take before it counts as one that hangs.
const patience = 5 * time.Second

var errHangs = errors.New("a write takes too long: the disk, or the server's log, may hang")

// begin waits for the turn to touch the file, unless who has it hangs.
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

// end gives the turn to the next.
func (l *Log) end() {
	l.mu.Lock()
	l.since = time.Time{}
	l.mu.Unlock()
	<-l.turn
}

// hangs reports whether a write is going on for too long.
func (l *Log) hangs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.since.IsZero() && time.Since(l.since) >= l.patience
}

// within waits for something that may hang, as long as a write may take. What
// hangs is left behind.
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
