package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/background"
)

// commander runs commands on the node that has a key.
type commander interface {
	redis.Cmdable
	Process(ctx context.Context, cmd redis.Cmder) error
}

// onMaster runs commands on the node that holds a key, and follows redirects,
// until ctx ends, or for unboundedWait without a deadline. A node whose breaker
// is open is not asked. The commands may run
// twice, so they must be idempotent or harmless to repeat, as a reset.
func (t *topology) onMaster(ctx context.Context, key string, run func(context.Context, commander) error) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, unboundedWait)
		defer cancel()
	}
	var addr string
	asking := false
	for try := 1; ; try++ {
		q := t.holder(key, addr)
		err := errNoNode
		if q != nil {
			if err := q.refusal(); err != nil {
				return err
			}
		}
		switch {
		case q != nil && asking:
			err = runAsking(ctx, q, run)
		case q != nil:
			client := q.client.Load()
			err = run(ctx, client)
			q.noteCall(client, err)
		}
		if err == nil {
			return nil
		}
		result := resultOf(err)
		addr, asking = "", false
		switch result {
		case moved:
			addr = redirect(err, q.addr)
			t.refreshSoon()
		case askElsewhere:
			addr, asking = redirect(err, q.addr), true
		case mayHaveRun, refused:
			if q != nil {
				return fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			t.refreshSoon()
		default:
			t.refreshSoon()
		}
		if background.Sleep(ctx, backoff(result, try)) != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// unboundedWait is how long a caller without a deadline waits for a server.
const unboundedWait = 5 * time.Second

// runAsking runs commands on the node that their slot is moving to.
func runAsking(ctx context.Context, q *nodeQueue, run func(context.Context, commander) error) error {
	conn := q.client.Load().Conn()
	conn.AddHook(askingHook{})
	return errors.Join(run(ctx, conn), conn.Close())
}

// askingHook sends ASKING before each command.
type askingHook struct{}

func (askingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (askingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		all := make([]redis.Cmder, 0, 2*len(commands))
		for _, c := range commands {
			all = append(all, redis.NewStatusCmd(ctx, "ASKING"), c)
		}
		return next(ctx, all)
	}
}

func (askingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		if err := next(ctx, redis.NewStatusCmd(ctx, "ASKING")); err != nil {
			c.SetErr(err)
			return err
		}
		return next(ctx, c)
	}
}

// holder returns the node at addr, or the one that should hold a key.
func (t *topology) holder(key, addr string) *nodeQueue {
	if addr != "" {
		return t.reach(addr)
	}
	shards := *t.shards.Load()
	if !t.cluster {
		return shards[0]
	}
	// The nearest shard below its slot is most likely on the same node; a
	// redirect corrects it if not.
	slot := int(slotOf(tagOf(key)))
	return shards[slot*len(shards)/slotCount]
}

// tagOf is the part of a key that its slot is computed from.
func tagOf(key string) string {
	_, after, _ := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
		return tag
	}
	return key
}
