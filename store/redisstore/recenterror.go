package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
)

// recently is how long health reports an error. Callers who meet it may be few.
const recently = time.Minute

// recentError is the last error of a kind that health reports although Redis answers.
type recentError struct {
	last   atomic.Pointer[errorAt]
	logged *logthrottle.Throttle
}

type errorAt struct {
	at  time.Time
	err error
}

func newRecentError() recentError { return recentError{logged: logthrottle.New(failureLines)} }

// note logs an error, and keeps it.
func (r *recentError) note(log *slog.Logger, level slog.Level, message string, err error) {
	r.last.Store(&errorAt{time.Now(), err})
	r.logged.Log(context.Background(), log, level, message, "error", err)
}

// get returns the error of the last minute, or nil.
func (r *recentError) get() error {
	if last := r.last.Load(); last != nil && time.Since(last.at) < recently {
		return last.err
	}
	return nil
}

// foundUnreadable notes a state that cannot be read, which stays as it is, and returns the error.
// There are such states after a return to an older version.
func (s *Store) foundUnreadable(of int64) error {
	err := fmt.Errorf("%w: a bucket has state of version %d that this process cannot read (it reads version %d): "+
		"a newer version of FluxGate may have written it", ErrUnavailable, of, version)
	s.unreadable.note(s.log, slog.LevelWarn, "the state of a bucket cannot be read: "+withoutRedis, err)
	return err
}
