package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/store"
)

var callPool = sync.Pool{New: func() any { return new(scriptCall) }}

// send sends a batch to the node, as one call, or in a cluster as one for each
// shard in one round trip. It reports whether all were answered.
func (l *nodeQueue) send(batch []*shardRequest) (all bool) {
	all = true
	groups := l.store.group(batch)
	// A context that ends, not only a deadline: nothing else bounds the wait
	// for a connection that is neither opened nor refused.
	start, deadline := time.Now(), latest(batch)
	// Half of the timeout at least: its requests may have waited here for most of their
	// time, and a call that is given up costs a connection.
	if least := start.Add(l.store.config.Timeout / 2); deadline.Before(least) {
		deadline = least
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	commands := make([]*redis.Cmd, len(groups))
	client, scripts := l.client.Load(), l.scripts.Load()
	for i, q := range groups {
		q.build(l.store.now())
		commands[i] = redis.NewCmd(ctx, q.args...)
	}
	process(ctx, client, groups, commands)
	var failure error
	answered := false
	for i, q := range groups {
		reply, err := commands[i].Text()
		if refusalOf(err) == noScript {
			reply, err = l.heal(ctx, client, q, scripts)
		}
		if err == nil {
			_, err = q.read(reply)
		}
		all = all && err == nil
		if countsAsFailure(err) {
			failure = err
		}
		answered = answered || isAnswer(err)
		q.err = err
	}
	// Before the callers know: their next requests must find the breaker open.
	// A former client tells nothing about the connections of the probe.
	l.mu.Lock()
	if l.client.Load() == client && (failure == nil && answered || failure != nil && l.says(failure, start, deadline)) {
		l.note(failure)
	}
	l.mu.Unlock()
	for _, q := range groups {
		l.deliver(q, q.err)
		q.batch, q.err = q.batch[:0], nil
		callPool.Put(q)
	}
	return all
}

// process sends the commands in one round trip.
func process(ctx context.Context, client *redis.Client, groups []*scriptCall, commands []*redis.Cmd) {
	if len(commands) == 1 && !groups[0].batch[0].asking {
		_ = client.Process(ctx, commands[0]) // the command has the error
		return
	}
	pipe := client.Pipeline()
	for i, c := range commands {
		if groups[i].batch[0].asking {
			pipe.Do(ctx, "ASKING")
		}
		_ = pipe.Process(ctx, c) // queued only
	}
	_, _ = pipe.Exec(ctx) // the commands have the errors
}

// heal runs a call on a node that does not have the script. Of concurrent calls
// one loads it, with EVAL; the others then find it there.
func (l *nodeQueue) heal(ctx context.Context, client *redis.Client, q *scriptCall, seen uint64) (string, error) {
	for {
		l.healing.Lock()
		if l.scripts.Load() == seen {
			l.store.scripts.Add(1)
			reply, err := one(ctx, client, q, q.evaluate())
			l.scripts.Add(1) // now, so that calls that began before do not load it too
			l.healing.Unlock()
			if err == nil {
				l.logLoaded()
			}
			l.store.wakeFleet()
			return reply, err
		}
		seen = l.scripts.Load()
		l.healing.Unlock()
		reply, err := one(ctx, client, q, q.evaluateSHA())
		if refusalOf(err) != noScript {
			return reply, err
		}
	}
}

// logLoaded logs that the script was loaded into the node.
func (l *nodeQueue) logLoaded() {
	if ok, suppressed := l.loaded.Allow(time.Now()); ok {
		l.store.log.Info("loaded the decision script into Redis, which did not have it: it is new, was restarted or was flushed",
			"node", l.address(), "suppressed", suppressed)
	}
}

func one(ctx context.Context, client *redis.Client, q *scriptCall, args []any) (string, error) {
	c := redis.NewCmd(ctx, args...)
	process(ctx, client, []*scriptCall{q}, []*redis.Cmd{c})
	return c.Text()
}

// deliver gives the requests of a call their result: the answer, another try
// elsewhere, or the error.
func (l *nodeQueue) deliver(q *scriptCall, err error) {
	why := ran
	if err != nil {
		why = refusalOf(err)
	}
	if countsAsFailure(err) {
		l.store.nodes.refreshSoon() // the shard may have another node by now
	}
	var again []*shardRequest
	for _, a := range q.batch {
		a.asking = false
		switch {
		case err == nil && a.nothingReadable():
			l.store.answer(a, fmt.Errorf("%w: a bucket has state of version %d that this gateway cannot read", ErrUnavailable, a.version))
		case err == nil:
			l.store.answer(a, nil)
		case why == ran && nothingRan(err):
			l.store.answer(a, fmt.Errorf("%w: %w: %w", ErrUnavailable, store.ErrRefused, l.store.clean(err)))
		case why == ran:
			l.store.answer(a, fmt.Errorf("%w: %w", ErrUnavailable, l.store.clean(err)))
		case why == tryAgain && len(q.batch) == 1 && !a.hasOneKey():
			l.store.answer(a, errSplit)
		default:
			again = append(again, a)
		}
	}
	if len(again) > 0 {
		l.store.again(again, why, err, l.addr)
	}
}

// errSplit means that the keys of a request are on two nodes during a
// migration: it must be sent key by key.
var errSplit = errors.New("the keys are on two nodes")

// latest is the latest deadline of a batch: the deadline of one caller must not
// end the call of the others.
func latest(batch []*shardRequest) time.Time {
	last := batch[0].deadline
	for _, a := range batch[1:] {
		if a.deadline.After(last) {
			last = a.deadline
		}
	}
	return last
}
