package client

import (
	"context"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/wire"
)

const (
	// maxCalls is how many requests are under way before further callers share
	// the next one: one at the server, and one that is ready when it is done.
	maxCalls = 2
	// maxCallAge is how long a request counts as under way: callers do not wait
	// for a server that is far away, or for a check that a rule holds.
	maxCallAge = 10 * time.Millisecond
	// refusedTime is how long smaller batches are sent after one was refused.
	refusedTime = time.Minute
)

// callQueue holds the checks of callers that arrive while enough requests are under
// way. The next request takes as many as are waiting. A caller that finds the queue
// empty sends its own request at once.
type callQueue struct {
	// send sends a request, answers its checks, and calls end.
	send     func(ctx context.Context, c *call, end func())
	maxCalls int
	maxAge   time.Duration
	maxBatch int

	mu       sync.Mutex
	waiting  []*pendingCheck
	calls    int       // under way, and younger than maxAge
	accepted int       // the largest batch that the server has not refused
	refused  time.Time // when it last refused one
}

// pendingCheck is a check that is queued or shares a request.
type pendingCheck struct {
	ctx  context.Context // of its caller, with a deadline
	body []byte
	turn chan turn // has room for one
	// The lock of the queue guards these.
	call       *call // nil while it is queued
	done, left bool  // it has its turn; its caller has left before
}

// turn is what a check waits for: its answer, or that it is to be sent alone.
type turn struct {
	entry wire.Entry
	err   error
	alone func() // nil with an answer. Called when the request of the check has ended
}

// call is one request with the checks of several callers.
type call struct {
	checks []*pendingCheck
	open   int // checks without an answer whose callers have not left
	cancel context.CancelFunc
}

// wait returns the turn of a check: at once if few requests are under way.
func (q *callQueue) wait(ctx context.Context, body []byte) turn {
	q.mu.Lock()
	if q.accepted < q.maxBatch && time.Since(q.refused) > refusedTime {
		q.accepted = q.maxBatch
	}
	switch {
	case q.accepted == 1:
		q.mu.Unlock()
		return turn{alone: func() {}}
	case len(q.waiting) == 0 && q.calls < q.maxCalls:
		defer q.mu.Unlock()
		return turn{alone: q.begin()}
	}
	p := &pendingCheck{ctx: ctx, body: body, turn: make(chan turn, 1)}
	q.waiting = append(q.waiting, p)
	q.mu.Unlock()
	select {
	case t := <-p.turn:
		return t
	case <-ctx.Done():
	}
	if q.leave(p) {
		return turn{err: reason(ctx, ctx.Err())}
	}
	return <-p.turn // it came in the meantime
}

// begin counts a request until it ends, or is older than maxAge. The lock is held.
func (q *callQueue) begin() (end func()) {
	q.calls++
	free := sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.calls--
		q.next()
	})
	timer := time.AfterFunc(q.maxAge, free)
	return func() {
		timer.Stop()
		free()
	}
}

// next starts requests for the waiting checks. The lock is held.
func (q *callQueue) next() {
	for q.calls < q.maxCalls {
		c := q.cut()
		switch len(c.checks) {
		case 0:
			return
		case 1:
			c.checks[0].finish(turn{alone: q.begin()})
		default:
			ctx, cancel := context.WithDeadlineCause(context.Background(), c.latest(), errTimeout)
			c.cancel = cancel
			go q.send(ctx, c, q.begin())
		}
	}
}

// cut removes the next checks from the queue, and those whose callers have left. The
// lock is held.
func (q *callQueue) cut() *call {
	c := new(call)
	n, size := 0, len(batchStart)
	for _, p := range q.waiting {
		if p.ctx.Err() == nil {
			if size += len(p.body) + 1; len(c.checks) == q.accepted || len(c.checks) > 0 && size > maxBatchBytes {
				break
			}
			c.checks = append(c.checks, p)
			p.call = c
		}
		n++
	}
	c.open = len(c.checks)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return c
}

// latest is when the last caller of a request leaves.
func (c *call) latest() time.Time {
	var latest time.Time
	for _, p := range c.checks {
		if deadline, _ := p.ctx.Deadline(); deadline.After(latest) {
			latest = deadline
		}
	}
	return latest
}

// answer gives a check its turn, and reports whether its caller had left before.
func (q *callQueue) answer(p *pendingCheck, t turn) (left bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !p.finish(t)
}

// finish gives a check its turn, unless it had one or its caller has left. The lock
// is held.
func (p *pendingCheck) finish(t turn) bool {
	if p.done || p.left {
		return false
	}
	p.done = true
	p.call.open--
	p.turn <- t // has room
	return true
}

// leave lets the caller of a check go, unless the check has its turn. A request that
// no caller waits for ends.
func (q *callQueue) leave(p *pendingCheck) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.done {
		return false
	}
	p.left = true
	if c := p.call; c != nil {
		if c.open--; c.open == 0 {
			c.cancel()
		}
	}
	return true
}

// refuse notes that the server does not accept a batch of such a size.
func (q *callQueue) refuse(size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.accepted, q.refused = max(1, min(q.accepted, size/2)), time.Now()
}
