package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

const (
	recentWindow = 1500 * time.Millisecond // of decisions that health looks at
	recentSlot   = 250 * time.Millisecond
	// A share of failedPart of the recent decisions, and at least failedLeast,
	// make a node unhealthy. One decision that failed does not.
	failedPart  = 20
	failedLeast = 2
	// failureLines is how often failures are logged.
	failureLines = time.Minute
)

// recentDecisions counts the decisions of the last seconds. Too many failures are
// a state, which ends with a success after which there are no longer too many.
type recentDecisions struct {
	mu    sync.Mutex
	slots [recentWindow / recentSlot]decisionCounts

	since    time.Time // the first failure of the state, zero without
	cause    error     // of the last failure
	unlogged error     // a failure that was not logged
}

type decisionCounts struct {
	began          time.Time
	served, failed int
	since          time.Time // the first failure
	cause          error
}

// count counts a decision of a node and logs what must be.
func (q *nodeQueue) count(asked time.Time, err error, isReply bool) {
	failed := q.recent.add(asked, time.Now(), err, isReply)
	if failed != nil && q.outage() == nil && q.store.work.Context().Err() == nil {
		q.failures.Log(context.Background(), q.store.log, slog.LevelWarn,
			"Redis fails decisions: "+withoutRedis, "node", q.address(), "error", failed)
	}
}

// add counts a decision that was asked for at a time, or half a window ago if it
// took longer, and ended now. It returns a failure that is to be logged: at once if
// it cannot open the breaker, which has its own log lines, otherwise if the state
// lasts, or with the next success.
func (r *recentDecisions) add(asked, now time.Time, err error, isReply bool) (failed error) {
	if earliest := now.Add(-recentWindow / 2); asked.Before(earliest) {
		asked = earliest
	}
	began := asked.Truncate(recentSlot)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[began.UnixNano()/int64(recentSlot)%int64(len(r.slots))]
	if !s.began.Equal(began) {
		*s = decisionCounts{began: began}
	}
	if err == nil {
		s.served++
		if !r.since.IsZero() && !r.window(now).tooMany() {
			r.since = time.Time{}
		}
		failed, r.unlogged = r.unlogged, nil
		return failed
	}
	if s.failed++; s.failed == 1 {
		s.since = now
	}
	r.cause = err
	if r.since.IsZero() {
		if all := r.window(now); all.tooMany() {
			r.since = all.since
		}
	}
	switch {
	case errors.Is(err, store.ErrNotSent):
		return nil
	case !isReply && (r.since.IsZero() || now.Sub(r.since) <= soon):
		r.unlogged = err
		return nil
	}
	r.unlogged = nil
	return err
}

// forget drops the counts: an outage is over.
func (r *recentDecisions) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.slots[:])
	r.since, r.unlogged, r.cause = time.Time{}, nil, nil
}

// sum returns the counts of the window that ends now, with the first failure of
// the state and the last cause.
func (r *recentDecisions) sum(now time.Time) decisionCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.window(now)
	if !r.since.IsZero() {
		all.since = r.since
	}
	all.cause = r.cause
	return all
}

// window returns the counts of the window that ends now. The lock is held.
func (r *recentDecisions) window(now time.Time) (all decisionCounts) {
	for i := range r.slots {
		s := &r.slots[i]
		if now.Sub(s.began) > recentWindow {
			continue
		}
		all.served += s.served
		all.failed += s.failed
		if s.failed > 0 && (all.since.IsZero() || s.since.Before(all.since)) {
			all.since = s.since
		}
	}
	return all
}

func (c decisionCounts) tooMany() bool {
	return c.failed >= failedLeast && c.failed*failedPart >= c.served+c.failed
}

// err says that too many decisions failed, and why the last one did.
func (c decisionCounts) err() error {
	if !c.tooMany() {
		return nil
	}
	return fmt.Errorf("%d of %d decisions in the last %v failed, the last one with: %w", c.failed, c.served+c.failed, recentWindow, c.cause)
}
