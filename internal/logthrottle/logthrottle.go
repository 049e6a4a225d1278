// Package logthrottle limits log lines about events that any request can cause.
package logthrottle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Throttle allows one log line per interval and counts the suppressed ones. It
// is safe for concurrent use.
type Throttle struct {
	every time.Duration

	mu         sync.Mutex
	last       time.Time
	suppressed int
}

// New returns a throttle that allows one line every interval.
func New(every time.Duration) *Throttle { return &Throttle{every: every} }

// Allow reports whether to log now, and how many lines were suppressed since
// the last one.
func (t *Throttle) Allow(now time.Time) (ok bool, suppressed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < t.every {
		t.suppressed++
		return false, 0
	}
	suppressed, t.suppressed, t.last = t.suppressed, 0, now
	return true, suppressed
}

// Log logs a line if one is allowed now, with the number of suppressed ones.
func (t *Throttle) Log(ctx context.Context, logger *slog.Logger, level slog.Level, message string, args ...any) {
	if ok, suppressed := t.Allow(time.Now()); ok {
		logger.Log(ctx, level, message, append(args, Suppressed(suppressed))...)
	}
}

// Suppressed is the attribute of a line with the number of suppressed ones, and none for 0.
func Suppressed(n int) slog.Attr {
	if n == 0 {
		return slog.Attr{} // handlers ignore it
	}
	return slog.Int("suppressed", n)
}
