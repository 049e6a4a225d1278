// Package unsent keeps settlements that a store did not get, and sends them until the store has
// them. An engine and a key limiter have a queue for settlements of their callers, and a store one
// for what it gives back by itself.
package unsent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/retry"
	"github.com/fluxgate/fluxgate/store"
)

const (
	// Most bounds how many settlements a queue keeps.
	Most = 10_000
	// timeout bounds one attempt.
	timeout = time.Second
)

// ErrFull is why a settlement is lost if too many wait.
var ErrFull = errors.New("too many settlements wait until the store is available")

// ErrLate is why a settlement is lost if the store got it neither while the request held its
// slots, nor while its tokens could come back or were owed.
var ErrLate = errors.New("the store was not available while the settlement could change something")

// ErrClosed is why a settlement is lost if the queue is closed.
var ErrClosed = errors.New("this process has stopped")

// Queue keeps settlements. Use [New].
type Queue struct {
	settle func(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error)
	gaveUp func(error)

	waiting, lost atomic.Int64

	queue *retry.Queue[*one]

	mu     sync.Mutex // held while one is added, or the queue is closed
	closed bool
}

// one is a settlement of one take. After its end it can change nothing.
type one struct {
	take   store.Taken
	actual int64
	end    time.Time
}

// New returns a queue that sends settlements with a function. gaveUp is called with the reason when
// one is lost: a settlement that may have run is not sent again.
func New(settle func(context.Context, store.Takes, []int64) ([]store.Settlement, error), gaveUp func(error)) *Queue {
	q := &Queue{settle: settle, gaveUp: gaveUp}
	q.queue = retry.New(q.send)
	return q
}

// Waiting returns how many settlements the queue has.
func (q *Queue) Waiting() int64 { return q.waiting.Load() }

// Lost returns how many settlements the queue has given up.
func (q *Queue) Lost() int64 { return q.lost.Load() }

// Add keeps the settlement of a take that the store did not get, and returns why it is lost, if it is.
func (q *Queue) Add(t *store.Taken, actual int64) error {
	if q.waiting.Add(1) > Most {
		return q.lose(ErrFull)
	}
	q.mu.Lock()
	closed := q.closed
	if !closed {
		q.queue.Add(&one{*t, actual, time.Now().Add(matters(t.Bands))})
	}
	q.mu.Unlock()
	if closed {
		return q.lose(ErrClosed)
	}
	return nil
}

// AddUnsent keeps those of several settlements that the store did not get, and returns why some are
// lost, if they are.
func (q *Queue) AddUnsent(takes store.Takes, actual []int64, settled []store.Settlement) error {
	var lost error
	for i := range settled {
		if why := settled[i].NotSent; why != nil {
			if full := q.Add(&takes[i], actual[i]); full != nil {
				lost = errors.Join(lost, full, why)
			}
		}
	}
	return lost
}

func (q *Queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// lose gives up a settlement that is counted as waiting.
func (q *Queue) lose(why error) error {
	q.waiting.Add(-1)
	q.Lose(why)
	return why
}

// Lose counts a settlement that may have run, or cannot be sent.
func (q *Queue) Lose(why error) {
	q.lost.Add(1)
	q.gaveUp(why)
}

// send sends a settlement, and reports whether to send it again.
func (q *Queue) send(s *one) (again bool) {
	if time.Now().After(s.end) {
		_ = q.lose(ErrLate)
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	settled, err := q.settle(ctx, store.Takes{s.take}, []int64{s.actual})
	switch {
	case err != nil:
		_ = q.lose(err)
	case errors.Is(settled[0].NotSent, store.ErrClosed):
		_ = q.lose(settled[0].NotSent)
	case settled[0].NotSent != nil && !q.isClosed():
		return true
	case settled[0].NotSent != nil:
		_ = q.lose(ErrClosed)
	default:
		q.waiting.Add(-1)
	}
	return false
}

// Close loses the settlements that wait, and returns how many.
func (q *Queue) Close() (lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	lost = len(q.queue.Drop())
	q.waiting.Add(-int64(lost))
	q.lost.Add(int64(lost))
	return lost
}

// matters is for how long a settlement can change something: until the slots have ended by
// themselves, the period of the take has passed, and a bucket in the largest debt is full again.
func matters(bands []store.ExactBand) (longest time.Duration) {
	for i := range bands {
		b := &bands[i]
		lasts := b.Period
		switch b.Kind {
		case bucket.TokenBucket:
			lasts = time.Duration(b.FullAfter(b.Max, 0)) * time.Microsecond // at most 142 years
		case bucket.Window:
			lasts += b.Period / 16
		}
		longest = max(longest, lasts)
	}
	return longest
}
