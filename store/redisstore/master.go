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

// commander runs commands on one node.
type commander interface {
	redis.Cmdable
	Process(ctx context.Context, cmd redis.Cmder) error
}

// onMaster runs a command on the node that holds a key, and follows redirects,
// until ctx ends, or for unboundedWait without a deadline. A node whose breaker
// is open is not asked. The command may run
// twice, so it must be idempotent or harmless to repeat, as a reset.
func onMaster[T any](
	ctx context.Context, t *topology, key string, run func(context.Context, commander) (T, error),
) (answer T, err error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, unboundedWait)
		defer cancel()
	}
	var addr string
	asking := false
	for try := 1; ; try++ {
		q := t.holder(key, addr)
		if err = errNoNode; q != nil {
			if err := q.refusal(); err != nil {
				return answer, err
			}
			answer, err = runOn(ctx, q, asking, run)
		}
		if err == nil {
			return answer, nil
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
				return answer, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			t.refreshSoon()
		default:
			t.refreshSoon()
		}
		if background.Sleep(ctx, backoff(result, try)) != nil {
			return answer, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// unboundedWait is how long a caller without a deadline waits for a server.
const unboundedWait = 5 * time.Second

// runOn runs a command on a node, which its slot may be moving to.
func runOn[T any](ctx context.Context, q *nodeQueue, asking bool, run func(context.Context, commander) (T, error)) (answer T, err error) {
	client := q.client.Load()
	if !asking {
		answer, err = run(ctx, client)
		q.noteCall(client, err)
		return answer, err
	}
	conn := client.Conn()
	if err = conn.Do(ctx, "ASKING").Err(); err == nil {
		answer, err = run(ctx, conn)
	}
	return answer, errors.Join(err, conn.Close())
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
