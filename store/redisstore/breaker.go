package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/store"
)

// The breaker of a node decides whether calls are sent to it. It opens when the
// node stops answering; then requests are answered at once, and only a probe
// asks the node, until it succeeds.
//
// An error counts as a failure if another call would have to wait for it too:
//
//	no answer in time                               counts
//	connection refused, reset or closed             counts
//	LOADING, MASTERDOWN, BUSY, READONLY, CLUSTERDOWN   counts
//	OOM and other replies                           do not: they come at once
//	MOVED, ASK, TRYAGAIN, NOSCRIPT                  do not: the call goes on
//	a caller that left, Close                       do not: they are ours
//	an answer that this process was too busy to get in time   does not, unless there is none for long
const (
	// failuresInRow open the breaker, and so do failuresOfRecent of the last
	// recentCalls calls.
	failuresInRow    = 3
	recentCalls      = 16
	failuresOfRecent = 8

	// The pause before a probe doubles from the first to the longest, and is
	// random within half of it, so that gateways do not probe together.
	firstPause   = 50 * time.Millisecond
	longestPause = 400 * time.Millisecond
	// idlePause is the pause for a node without shards, such as a former master.
	idlePause = 2 * time.Second
	// longestHold is how long a node that answers again is only charged, at most.
	longestHold = time.Second
	// A breaker that opens this soon after it has closed is the same outage.
	soon = time.Second
	// probeScript fails where a decision would fail.
	probeScript = "return redis.call('DEL', KEYS[1])"
)

// withoutRedis is what log lines say of requests that Redis does not decide.
const withoutRedis = "requests are counted in this process (onFailure local), allowed (open) or rejected (closed)"

// outage is a time in which a node is not asked.
type outage struct {
	since time.Time // of the first failure
	cause error
	err   error // for requests
}

// breaker is guarded by the lock of its queue.
type breaker struct {
	outage   *outage   // nil while calls are sent
	inRow    int       // failed calls since the last success
	first    time.Time // the first of these
	recent   uint16    // the last calls, one bit each: 1 if it failed
	closedAt time.Time
	answered time.Time // the last success
	excused  int       // timeouts since then that were not counted

	// charges is whether there is something to charge, and charging whether the
	// node answers again but is only charged.
	charges, charging bool
}

// refuses returns whether a request is not sent.
func (b *breaker) refuses(r *shardRequest) bool {
	if b.outage == nil {
		return false
	}
	b.charges = b.charges || r.charge
	return !b.charging || !r.charge && r.op != opSettle
}

// outage returns why the node is not asked, or nil.
func (q *nodeQueue) outage() *outage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.breaker.outage
}

// refusal returns why no other commands are sent to the node, or nil.
func (q *nodeQueue) refusal() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.breaker.outage == nil || q.breaker.charging {
		return nil
	}
	return q.breaker.outage.err
}

// isTimeout reports whether a call had no answer in time.
func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// countsAsFailure reports whether an error of a call counts for the breaker.
func countsAsFailure(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, errAnswer) {
		return false
	}
	switch resultOf(err) {
	case notNow, notReached:
		return true
	case mayHaveRun:
		var reply redis.Error
		return !errors.As(err, &reply)
	}
	return false
}

// noticedLate is the part of the timeout after which a deadline is noticed too late.
const noticedLate = 4

// says reports whether a failed call tells something about the server: not if this process
// was too busy to send it or to notice its answer in time, and the server has answered
// others meanwhile. A busy process has to notice an outage too: without such an answer only
// the first timeouts are excused. The lock of the queue is held.
func (q *nodeQueue) says(err error, start, deadline time.Time) bool {
	timeout, b := q.store.config.Timeout, &q.breaker
	late := errors.Is(err, context.DeadlineExceeded) && time.Since(deadline) > timeout/noticedLate
	busy := errors.As(err, new(ownDelay)) || isTimeout(err) && (late || time.Since(start) <= timeout/2)
	if !busy || b.excused >= failuresInRow && b.answered.Before(start) {
		return true
	}
	b.excused++
	return false
}

// noteCall records how a call over a client ended.
func (q *nodeQueue) noteCall(client *redis.Client, err error) {
	counts := countsAsFailure(err)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.client.Load() != client: // it tells nothing about the connections of the probe
	case counts && !errors.As(err, new(ownDelay)):
		q.note(err)
	case isAnswer(err):
		q.note(nil)
	}
}

// note records how a call ended, and opens the breaker if it must. The lock of
// the queue is held.
func (q *nodeQueue) note(failure error) {
	b := &q.breaker
	b.recent <<= 1
	if failure == nil {
		b.inRow, b.excused, b.answered = 0, 0, time.Now()
		return
	}
	b.recent |= 1
	if b.inRow++; b.inRow == 1 {
		b.first = time.Now()
	}
	if b.outage == nil && (b.inRow >= failuresInRow || bits.OnesCount16(b.recent) >= failuresOfRecent) {
		q.open(failure)
	}
}

// open stops the calls to the node and answers the waiting requests. The lock
// of the queue is held.
func (q *nodeQueue) open(cause error) {
	o := q.newOutage(q.breaker.first, cause)
	q.breaker.outage = o
	for _, r := range q.queue {
		q.store.answer(r, o.err)
	}
	clear(q.queue)
	q.queue, q.waiting = q.queue[:0], 0
	pause, log, suppressed := firstPause, true, 0
	if time.Since(q.breaker.closedAt) < soon {
		pause = longestPause // the last probe succeeded too early
		log, suppressed = q.reopened.Allow(time.Now())
	}
	q.store.work.Go(func(life context.Context) {
		if log {
			q.store.log.Warn("Redis does not answer: "+withoutRedis,
				"node", q.address(), "error", o.cause, logthrottle.Suppressed(suppressed))
		}
		q.probeUntilClosed(life, pause, log)
	})
}

func (q *nodeQueue) newOutage(since time.Time, cause error) *outage {
	cause = q.store.clean(cause)
	err := fmt.Errorf("%w: %w: %s does not answer: %w", ErrUnavailable, store.ErrNotSent, q.address(), cause)
	return &outage{since: since, cause: cause, err: err}
}

// probeUntilClosed probes the node until it answers or has left the cluster.
func (q *nodeQueue) probeUntilClosed(life context.Context, pause time.Duration, log bool) {
	patience := q.connectTimeout()
	longest := max(patience, connectTimeouts*q.store.config.Timeout)
	for q.store.nodes.has(q) {
		if background.Sleep(life, pause/2+rand.N(pause)) != nil { //nolint:gosec // jitter, not a secret
			return
		}
		client, err := q.probe(life, patience)
		if err == nil {
			q.close(life, client, log)
			return
		}
		if isTimeout(err) {
			patience = min(2*patience, longest)
		}
		q.mu.Lock()
		since := q.breaker.outage.since
		q.breaker.outage = q.newOutage(since, err)
		q.mu.Unlock()
		q.store.nodes.refreshSoon() // another node may hold its shards by now
		pause = min(2*pause, longestPause)
		if q.shard() < 0 {
			pause = idlePause
			if log {
				log = false
				q.store.log.Info("Redis still does not answer; its buckets are on another server now",
					"node", q.address(), "after", sinceText(since))
			}
		}
	}
}

func sinceText(t time.Time) string { return time.Since(t).Round(time.Millisecond).String() }

// shard is one of the node's shards, or -1.
func (q *nodeQueue) shard() int { return slices.Index(*q.store.nodes.shards.Load(), q) }

// close sends calls again, over the connections of the probe: those from before
// the outage may be dead, and go-redis waits before it opens new ones.
//
// If there is something to charge, only that is sent at first, for as long as the
// outage lasted, at most a second: other gateways see the node again a little
// later, and what they granted meanwhile must not be handed out before they have
// charged it.
func (q *nodeQueue) close(life context.Context, client *redis.Client, log bool) {
	_ = q.client.Swap(client).Close()
	q.mu.Lock()
	since := q.breaker.outage.since
	q.breaker.charging = q.breaker.charges
	q.mu.Unlock()
	q.store.wakeFleet()
	q.store.nodes.refreshSoon()
	if q.breaker.charging && background.Sleep(life, min(longestHold, time.Since(since))) != nil { // no other goroutine changes it
		return
	}
	q.recent.forget() // before decisions succeed
	q.mu.Lock()
	q.breaker = breaker{closedAt: time.Now()}
	q.connected = false // on a slow network more connections are needed
	q.mu.Unlock()
	if log {
		q.store.log.Info("Redis answers again", "node", q.address(), "after", sinceText(since))
	}
}

// probe returns a client with connections to the node, or an error if the node
// would not run a decision in time.
func (q *nodeQueue) probe(life context.Context, patience time.Duration) (*redis.Client, error) {
	client := q.store.nodes.target.connect(q.addr, q.store.config)
	if err := q.connect(life, client, patience); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// runProbe returns an error unless the node would run a decision, or answers why
// it does not. The key does not exist, and is in a slot of the node.
func (q *nodeQueue) runProbe(ctx context.Context, on redis.Cmdable) error {
	err := on.Eval(ctx, probeScript, []string{q.store.names.probe(max(0, q.shard()))}).Err()
	if isAnswer(err) {
		return nil
	}
	return err
}

// isAnswer reports whether the result of a call proves that its node runs calls.
func isAnswer(err error) bool {
	if err == nil {
		return true
	}
	var reply redis.Error
	return errors.As(err, &reply) && resultOf(err) != notNow
}

// connect opens the connections that calls need: a few, or on a slow network as
// many as there can be calls in flight, because a call that had to open its own
// would be late. Connecting may take longer than a call, which it tries too.
func (q *nodeQueue) connect(life context.Context, client *redis.Client, patience time.Duration) error {
	timeout := q.store.config.Timeout
	ctx, cancel := context.WithTimeout(life, patience)
	defer cancel()
	if err := q.openConnections(ctx, client, eagerCalls); err != nil {
		return err
	}
	call, cancelCall := context.WithTimeout(ctx, timeout)
	defer cancelCall()
	start := time.Now()
	tried := make(chan error, 1)
	go func() { tried <- q.runProbe(call, client) }()
	select {
	case err := <-tried:
		if err != nil {
			return err
		}
	case <-call.Done(): // go-redis does not notice that the store is closed
		return call.Err()
	}
	if time.Since(start) > q.slow() {
		if former := q.client.Load(); former != client {
			_ = former.Close() // or there would be too many connections
		}
		return q.openConnections(ctx, client, mostCalls)
	}
	return nil
}

// connectTrips is more round trips than it takes to open connections, with TLS, to try a call, and
// to open more of them.
const connectTrips = 20

// connectTimeout bounds opening connections to a node as far away as the last one that answered.
func (q *nodeQueue) connectTimeout() time.Duration {
	timeout := q.store.config.Timeout
	return max(timeout, min(connectTimeouts*timeout, time.Second), connectTrips*time.Duration(q.store.roundTrip.Load()))
}

// connectTimeouts is how many timeouts a probe has at least after others had too little time. A
// node that is further away than the last one would never be reached otherwise.
const connectTimeouts = 5

// slow is the round trip from which on connections are opened ahead.
func (q *nodeQueue) slow() time.Duration { return q.store.config.Timeout / 8 }

// openConnections opens connections until a client has n. It does not wait for
// them when the store is closed, which ends them.
func (q *nodeQueue) openConnections(ctx context.Context, client *redis.Client, n int) error {
	opened, all := make(chan error, n), make(chan struct{})
	defer close(all)
	for range n {
		go func() {
			conn := client.Conn()
			opened <- q.runProbe(ctx, conn)
			<-all // or they would share connections
			_ = conn.Close()
		}()
	}
	for range n {
		select {
		case err := <-opened:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
