package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
)

// unreadableFor is how long health reports a bucket that could not be read. Callers of such a
// bucket may be few.
const unreadableFor = time.Minute

// unreadable is the last state of a bucket that this process could not read, as after a return
// to an older version.
type unreadable struct {
	last   atomic.Pointer[unreadableState]
	logged *logthrottle.Throttle
}

type unreadableState struct {
	at  time.Time
	err error
}

// foundUnreadable notes a state that cannot be read, which stays as it is, and returns the error.
func (s *Store) foundUnreadable(of int64) error {
	err := fmt.Errorf("%w: a bucket has state of version %d that this process cannot read (it reads version %d): "+
		"a newer version of FluxGate may have written it", ErrUnavailable, of, version)
	s.unreadable.last.Store(&unreadableState{time.Now(), err})
	s.unreadable.logged.Log(context.Background(), s.log, slog.LevelWarn,
		"the state of a bucket cannot be read: "+withoutRedis, "error", err)
	return err
}

// recent returns the error of the last minute, or nil.
func (u *unreadable) recent() error {
	if last := u.last.Load(); last != nil && time.Since(last.at) < unreadableFor {
		return last.err
	}
	return nil
}
