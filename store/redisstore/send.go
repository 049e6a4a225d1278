package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/store"
)

var callPool = sync.Pool{New: func() any { return new(scriptCall) }}

// send sends a batch to the node, as one call, or in a cluster as one for each
// shard in one round trip. It reports whether all were answered.
func (q *nodeQueue) send(m *callMemory) (all bool) {
	all = true
	groups := q.store.group(m.batch, m.groups[:0])
	// A context that ends, not only a deadline: nothing else bounds the wait
	// for a connection that is neither opened nor refused.
	start, deadline := time.Now(), latest(m.batch)
	// Half of the timeout at least: its requests may have waited here for most of their
	// time, and a call that is given up costs a connection.
	if least := start.Add(q.store.config.Timeout / 2); deadline.Before(least) {
		deadline = least
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	commands := m.commands[:0]
	client, scripts := q.client.Load(), q.scripts.Load()
	for _, c := range groups {
		c.build(q.store.now())
		c.alone = len(groups) == 1 && !c.batch[0].asking
		commands = append(commands, redis.NewStringCmd(ctx, c.args...))
	}
	m.groups, m.commands = groups, commands
	process(ctx, client, groups, commands)
	var failure error
	answered := false
	for i, c := range groups {
		reply, err := commands[i].Result()
		if resultOf(err) == noScript {
			reply, err = q.heal(ctx, client, c, scripts)
		}
		if err == nil {
			if _, err = c.read(reply); err == nil {
				q.store.clock.Report(c.batch[0].now)
			}
		}
		all = all && err == nil
		if countsAsFailure(err) {
			failure = err
		}
		answered = answered || isAnswer(err)
		c.err = err
	}
	// Before the callers know: their next requests must find the breaker open.
	// A former client tells nothing about the connections of the probe.
	q.mu.Lock()
	if q.client.Load() == client && (failure == nil && answered || failure != nil && q.says(failure, start, deadline)) {
		q.note(failure)
	}
	q.mu.Unlock()
	for _, c := range groups {
		q.deliver(c, c.err)
		c.batch, c.err = c.batch[:0], nil
		callPool.Put(c)
	}
	return all
}

// process sends the commands in one round trip.
func process(ctx context.Context, client *redis.Client, groups []*scriptCall, commands []*redis.StringCmd) {
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
func (q *nodeQueue) heal(ctx context.Context, client *redis.Client, c *scriptCall, seen uint64) (string, error) {
	for {
		q.loading.Lock()
		if q.scripts.Load() == seen {
			reply, err := one(ctx, client, c, c.by("EVAL", &decideScript))
			q.scripts.Add(1) // now, so that calls that began before do not load it too
			q.loading.Unlock()
			if err == nil {
				q.loaded.Log(context.Background(), q.store.log, slog.LevelInfo,
					"loaded the decision script into Redis: the server is new, or was restarted or flushed", "node", q.address())
			}
			q.store.wakeFleet()
			return reply, err
		}
		seen = q.scripts.Load()
		q.loading.Unlock()
		reply, err := one(ctx, client, c, c.by("EVALSHA", &decideSHA))
		if resultOf(err) != noScript {
			return reply, err
		}
	}
}

func one(ctx context.Context, client *redis.Client, c *scriptCall, args []any) (string, error) {
	command := redis.NewStringCmd(ctx, args...)
	process(ctx, client, []*scriptCall{c}, []*redis.StringCmd{command})
	return command.Result()
}

// deliver gives the requests of a call their result: the answer, another try
// elsewhere, or the error.
func (q *nodeQueue) deliver(c *scriptCall, err error) {
	result := c.resultOf(err)
	if countsAsFailure(err) {
		q.store.nodes.refreshSoon() // the shard may have another node by now
	}
	var again []*shardRequest
	for _, r := range c.batch {
		r.asking = false
		var unreadable error
		if err == nil && r.unreadable && !r.spoiled {
			unreadable = q.store.foundUnreadable(r.version)
		}
		switch {
		case err == nil && r.spoiled:
			q.store.answer(r, fmt.Errorf("%w: %w", ErrUnavailable, errAnswer))
		case unreadable != nil && r.nothingReadable():
			q.store.answer(r, unreadable)
		case err == nil:
			q.store.answer(r, nil)
		case result == refused:
			q.store.answer(r, fmt.Errorf("%w: %w: %w", ErrUnavailable, store.ErrRefused, q.store.clean(err)))
		case result == mayHaveRun:
			q.store.answer(r, fmt.Errorf("%w: %w", ErrUnavailable, q.store.clean(err)))
		case result == tryAgain && len(c.batch) == 1 && !r.hasOneKey():
			q.store.answer(r, errSplit)
		default:
			again = append(again, r)
		}
	}
	if len(again) > 0 {
		q.store.again(again, result, err, q.addr)
	}
}

// errSplit means that the keys of a request are on two nodes during a
// migration: it must be sent key by key.
var errSplit = errors.New("the keys are on two nodes")

// latest is the latest deadline of a batch: the deadline of one caller must not
// end the call of the others.
func latest(batch []*shardRequest) time.Time {
	last := batch[0].deadline
	for _, r := range batch[1:] {
		if r.deadline.After(last) {
			last = r.deadline
		}
	}
	return last
}
