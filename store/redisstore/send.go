package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var questions = sync.Pool{New: func() any { return new(question) }}

// send asks the node what a batch asks for, as one call, or in a cluster as
// one for each shard in one round trip. It reports whether all were answered.
func (l *lane) send(batch []*ask) bool {
	all := true
	groups := l.store.group(batch)
	// A context that ends, not only a deadline: a connection that is neither
	// opened nor refused is waited for by nothing else.
	ctx, cancel := context.WithDeadline(context.Background(), latest(batch))
	defer cancel()
	commands := make([]*redis.Cmd, len(groups))
	scripts := l.scripts.Load()
	for i, q := range groups {
		q.build(l.store.now())
		commands[i] = redis.NewCmd(ctx, q.args...)
	}
	l.process(ctx, groups, commands)
	for i, q := range groups {
		reply, err := commands[i].Text()
		if refusalOf(err) == noScript {
			reply, err = l.heal(ctx, q, scripts)
		}
		if err == nil {
			_, err = q.read(reply)
		}
		all = all && err == nil
		l.deliver(q, err)
		q.asks = q.asks[:0]
		questions.Put(q)
	}
	return all
}

// process sends the commands in one round trip.
func (l *lane) process(ctx context.Context, groups []*question, commands []*redis.Cmd) {
	if len(commands) == 1 && !groups[0].asks[0].asking {
		_ = l.client.Process(ctx, commands[0]) // the command has the error
		return
	}
	pipe := l.client.Pipeline()
	for i, c := range commands {
		if groups[i].asks[0].asking {
			pipe.Do(ctx, "ASKING")
		}
		_ = pipe.Process(ctx, c) // queued only
	}
	_, _ = pipe.Exec(ctx) // the commands have the errors
}

// heal runs a call on a node that does not have the script. Of all that notice
// one brings it, with its own call; the others then find it there.
func (l *lane) heal(ctx context.Context, q *question, seen uint64) (string, error) {
	for {
		l.healing.Lock()
		if l.scripts.Load() == seen {
			l.store.scripts.Add(1)
			reply, err := l.one(ctx, q, q.evaluate())
			l.scripts.Add(1) // now, so that who began before does not bring it too
			l.healing.Unlock()
			if err == nil {
				l.reportScript()
			}
			l.store.wakeRecord()
			return reply, err
		}
		seen = l.scripts.Load()
		l.healing.Unlock()
		reply, err := l.one(ctx, q, q.evaluateSHA())
		if refusalOf(err) != noScript {
			return reply, err
		}
	}
}

func (l *lane) one(ctx context.Context, q *question, args []any) (string, error) {
	c := redis.NewCmd(ctx, args...)
	l.process(ctx, []*question{q}, []*redis.Cmd{c})
	return c.Text()
}

// deliver gives the asks of a call what came of it: the answer, another try
// elsewhere, or the error.
func (l *lane) deliver(q *question, err error) {
	why := ran
	if err != nil {
		why = refusalOf(err)
	}
	if why == ran || why == notNow || why == notReached { // or else the node has answered where to ask
		l.report(err)
	}
	var again []*ask
	for _, a := range q.asks {
		a.asking = false
		switch {
		case err == nil && a.nothingReadable():
			l.store.answer(a, fmt.Errorf("%w: a bucket has state of version %d that this gateway cannot read", ErrUnavailable, a.version))
		case err == nil:
			l.store.answer(a, nil)
		case why == ran:
			l.store.answer(a, fmt.Errorf("%w: %w", ErrUnavailable, l.store.clean(err)))
		case why == tryAgain && len(q.asks) == 1 && len(a.keys) > 1:
			l.store.answer(a, errSplit)
		default:
			again = append(again, a)
		}
	}
	if len(again) > 0 {
		l.store.again(again, why, err, l.addr)
	}
}

// errSplit says that the keys of an ask are on two nodes for the moment: it
// must be asked key by key.
var errSplit = errors.New("the keys are on two nodes")

// latest is the latest deadline of a batch: one caller's must not end the
// call of the others.
func latest(batch []*ask) time.Time {
	last := batch[0].deadline
	for _, a := range batch[1:] {
		if a.deadline.After(last) {
			last = a.deadline
		}
	}
	return last
}
