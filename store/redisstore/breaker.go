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
func (b *breaker) refuses(a *shardRequest) bool {
	if b.outage == nil {
		return false
	}
	b.charges = b.charges || a.charge
	return !b.charging || !a.charge && a.op != opSettle
}

// outage returns why the node is not asked, or nil.
func (l *nodeQueue) outage() *outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.breaker.outage
}

// refusal returns why no other commands are sent to the node, or nil.
func (l *nodeQueue) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.breaker.outage == nil || l.breaker.charging {
		return nil
	}
	return l.breaker.outage.err
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
	switch refusalOf(err) {
	case notNow, notReached:
		return true
	case ran:
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
func (l *nodeQueue) says(err error, start, deadline time.Time) bool {
	timeout, b := l.store.config.Timeout, &l.breaker
	busy := errors.As(err, new(ownDelay)) ||
		isTimeout(err) && (time.Since(start) <= timeout/2 || errors.Is(err, context.DeadlineExceeded) && time.Since(deadline) > timeout/noticedLate)
	if !busy || b.excused >= failuresInRow && b.answered.Before(start) {
		return true
	}
	b.excused++
	return false
}

// noteCall records how a call over a client ended.
func (l *nodeQueue) noteCall(client *redis.Client, err error) {
	counts := countsAsFailure(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.client.Load() != client: // it tells nothing about the connections of the probe
	case counts && !errors.As(err, new(ownDelay)):
		l.note(err)
	case isAnswer(err):
		l.note(nil)
	}
}

// note records how a call ended, and opens the breaker if it must. The lock of
// the queue is held.
func (l *nodeQueue) note(failure error) {
	b := &l.breaker
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
		l.open(failure)
	}
}

// open stops the calls to the node and answers the waiting requests. The lock
// of the queue is held.
func (l *nodeQueue) open(cause error) {
	o := l.newOutage(l.breaker.first, cause)
	l.breaker.outage = o
	for _, a := range l.queue {
		l.store.answer(a, o.err)
	}
	clear(l.queue)
	l.queue, l.waiting = l.queue[:0], 0
	pause, log, suppressed := firstPause, true, 0
	if time.Since(l.breaker.closedAt) < soon {
		pause = longestPause // the last probe succeeded too early
		log, suppressed = l.reopened.Allow(time.Now())
	}
	l.store.work.Go(func(life context.Context) {
		if log {
			l.store.log.Warn("Redis does not answer: requests are counted in this process (onFailure local), pass (open) or are refused (closed)",
				"node", l.address(), "error", o.cause, "suppressed", suppressed)
		}
		l.probeUntilClosed(life, pause, log)
	})
}

func (l *nodeQueue) newOutage(since time.Time, cause error) *outage {
	cause = l.store.clean(cause)
	err := fmt.Errorf("%w: %w: %s does not answer: %w", ErrUnavailable, store.ErrNotSent, l.address(), cause)
	return &outage{since: since, cause: cause, err: err}
}

// probeUntilClosed probes the node until it answers or has left the cluster.
func (l *nodeQueue) probeUntilClosed(life context.Context, pause time.Duration, log bool) {
	for l.store.nodes.has(l) {
		select {
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter, not a secret
		case <-life.Done():
			return
		}
		client, err := l.probe(life)
		if err == nil {
			l.close(life, client, log)
			return
		}
		l.mu.Lock()
		since := l.breaker.outage.since
		l.breaker.outage = l.newOutage(since, err)
		l.mu.Unlock()
		l.store.nodes.refreshSoon() // another node may hold its shards by now
		pause = min(2*pause, longestPause)
		if l.shard() < 0 {
			pause = idlePause
			if log {
				log = false
				l.store.log.Info("Redis still does not answer; its buckets are on another server now", "node", l.address(), "after", sinceText(since))
			}
		}
	}
}

func sinceText(t time.Time) string { return time.Since(t).Round(time.Millisecond).String() }

// shard is one of the node's shards, or -1.
func (l *nodeQueue) shard() int { return slices.Index(*l.store.nodes.shards.Load(), l) }

// close sends calls again, over the connections of the probe: those from before
// the outage may be dead, and go-redis waits before it opens new ones.
//
// If there is something to charge, only that is sent at first, for as long as the
// outage lasted, at most a second: other gateways see the node again a little
// later, and what they granted meanwhile must not be handed out before they have
// charged it.
func (l *nodeQueue) close(life context.Context, client *redis.Client, log bool) {
	_ = l.client.Swap(client).Close()
	l.mu.Lock()
	since := l.breaker.outage.since
	l.breaker.charging = l.breaker.charges
	l.mu.Unlock()
	l.store.wakeFleet()
	l.store.nodes.refreshSoon()
	if l.breaker.charging { // no other goroutine changes it
		select {
		case <-time.After(min(longestHold, time.Since(since))):
		case <-life.Done():
			return
		}
	}
	l.recent.forget() // before decisions succeed
	l.mu.Lock()
	l.breaker = breaker{closedAt: time.Now()}
	l.connected = false // on a slow network more connections are needed
	l.mu.Unlock()
	if log {
		l.store.log.Info("Redis answers again", "node", l.address(), "after", sinceText(since))
	}
}

// probe returns a client with connections to the node, or an error if the node
// would not run a decision in time.
func (l *nodeQueue) probe(life context.Context) (*redis.Client, error) {
	client := l.store.nodes.target.connect(l.addr, l.store.config)
	if err := l.connect(life, client); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// runProbe returns an error unless the node would run a decision, or answers why
// it does not. The key does not exist, and is in a slot of the node.
func (l *nodeQueue) runProbe(ctx context.Context, on redis.Cmdable) error {
	err := on.Eval(ctx, probeScript, []string{l.store.names.probe(max(0, l.shard()))}).Err()
	if isAnswer(err) {
		return nil
	}
	return err
}

// isAnswer reports whether the result of a call proves that its node runs calls.
func isAnswer(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply) && refusalOf(err) != notNow
}

// connect opens the connections that calls need: a few, or on a slow network as
// many as there can be calls in flight, because a call that had to open its own
// would be late. Connecting may take longer than a call, which it tries too.
func (l *nodeQueue) connect(life context.Context, client *redis.Client) error {
	timeout := l.store.config.Timeout
	ctx, cancel := context.WithTimeout(life, l.connectTimeout())
	defer cancel()
	if err := l.openConnections(ctx, client, eagerCalls); err != nil {
		return err
	}
	call, cancelCall := context.WithTimeout(ctx, timeout)
	defer cancelCall()
	start := time.Now()
	tried := make(chan error, 1)
	go func() { tried <- l.runProbe(call, client) }()
	select {
	case err := <-tried:
		if err != nil {
			return err
		}
	case <-call.Done(): // go-redis does not notice that the store is closed
		return call.Err()
	}
	if time.Since(start) > l.slow() {
		if former := l.client.Load(); former != client {
			_ = former.Close() // or there would be too many connections
		}
		return l.openConnections(ctx, client, mostCalls)
	}
	return nil
}

// connectTimeout bounds opening connections.
func (l *nodeQueue) connectTimeout() time.Duration {
	timeout := l.store.config.Timeout
	return max(timeout, min(5*timeout, time.Second))
}

// slow is the round trip from which on connections are opened ahead.
func (l *nodeQueue) slow() time.Duration { return l.store.config.Timeout / 8 }

// openConnections opens connections until a client has n. It does not wait for
// them when the store is closed, which ends them.
func (l *nodeQueue) openConnections(ctx context.Context, client *redis.Client, n int) error {
	opened, all := make(chan error, n), make(chan struct{})
	defer close(all)
	for range n {
		go func() {
			conn := client.Conn()
			opened <- l.runProbe(ctx, conn)
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
