package redisstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/store"
)

const (
	recentWindow = 1500 * time.Millisecond // of decisions that health looks at
	recentSlot   = 250 * time.Millisecond
	// A share of failedPart of the recent decisions, and at least failedLeast,
	// make a node unhealthy. One decision that failed does not.
	failedPart  = 20
	failedLeast = 2
	// failureLines is how often failures are logged that are not part of a state
	// whose begin was logged.
	failureLines = 10 * time.Second
)

// recentDecisions counts the decisions of the last seconds. Too many failures are
// a state, which ends with a success after which there are no longer too many.
type recentDecisions struct {
	mu    sync.Mutex
	slots [recentWindow / recentSlot]decisionCounts

	since    time.Time // the first failure of the state, zero without
	last     time.Time // the last failure
	cause    error     // of the last failure
	logged   bool      // the begin of the state was
	loggedAt time.Time
	unlogged bool // a failure was not logged
	lines    *logthrottle.Throttle
}

type decisionCounts struct {
	began          time.Time
	served, failed int
	since          time.Time // the first failure
	cause          error
}

// decisionEvent is what to log about a decision.
type decisionEvent struct {
	failed     error // to be logged
	suppressed int
	ended      time.Duration // how long the state lasted that has ended
}

// count counts a decision of a node and logs what must be.
func (q *nodeQueue) count(asked time.Time, err error, isReply bool) {
	e := q.recent.add(asked, time.Now(), err, isReply)
	if e.failed == nil && e.ended == 0 || q.store.work.Context().Err() != nil {
		return
	}
	if e.failed != nil {
		if q.outage() != nil {
			return // the breaker has logged it
		}
		q.store.log.Warn("Redis fails decisions: "+withoutRedis,
			"node", q.address(), "error", e.failed, logthrottle.Suppressed(e.suppressed))
		return
	}
	q.store.log.Info("Redis decides again", "node", q.address(), "after", e.ended.Round(time.Millisecond).String())
}

// add counts a decision that was asked for at a time, or half a window ago if it
// took longer, and ended now. A failure is logged once for each state: at once if
// it cannot open the breaker, which has its own log lines, otherwise if the state
// lasts, or with the next success.
func (r *recentDecisions) add(asked, now time.Time, err error, isReply bool) (e decisionEvent) {
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
			if r.logged {
				e.ended = max(r.last.Sub(r.since), 1)
			}
			r.since, r.logged = time.Time{}, false
		}
		if r.unlogged {
			r.log(&e, now)
		}
		return e
	}
	if s.failed++; s.failed == 1 {
		s.since = now
	}
	r.last, r.cause = now, err
	if r.since.IsZero() {
		if all := r.window(now); all.tooMany() {
			r.since, r.logged = all.since, !r.loggedAt.Before(all.since)
		}
	}
	switch {
	case r.logged || errors.Is(err, store.ErrNotSent):
	case !isReply && (r.since.IsZero() || now.Sub(r.since) <= soon):
		r.unlogged = true
	default:
		r.log(&e, now)
	}
	return e
}

// log adds the last failure to what is to be logged, unless another one just was.
func (r *recentDecisions) log(e *decisionEvent, now time.Time) {
	if r.lines == nil {
		r.lines = logthrottle.New(failureLines)
	}
	r.unlogged = false
	if ok, suppressed := r.lines.Allow(now); ok {
		e.failed, e.suppressed = r.cause, suppressed
		r.loggedAt, r.logged = now, !r.since.IsZero()
	}
}

// forget drops the counts: an outage is over.
func (r *recentDecisions) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.slots[:])
	r.since, r.logged, r.unlogged, r.cause = time.Time{}, false, false, nil
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
