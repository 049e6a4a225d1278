package receipt

import (
	"container/heap"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxSpent is how many spent receipts a Memory holds.
const maxSpent = 1_000_000

// ErrFull means that a Memory holds too many spent receipts to accept another.
var ErrFull = errors.New("too many receipts were settled recently")

// Memory is a [Ledger] of one process.
type Memory struct {
	now func() time.Time

	mu    sync.Mutex
	spent map[ID]struct{}
	queue expiries // the same, by expiry
}

// NewMemory returns a ledger with the given clock.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, spent: make(map[ID]struct{})}
}

// Spend implements [Ledger]. A receipt that cannot be remembered is not accepted:
// it could be spent twice.
func (m *Memory) Spend(_ context.Context, id ID, valid time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for len(m.queue) > 0 && m.queue[0].at.Before(now) {
		delete(m.spent, heap.Pop(&m.queue).(expiry).id)
	}
	if _, again := m.spent[id]; again {
		return false, nil
	}
	if len(m.spent) >= maxSpent {
		return false, ErrFull
	}
	m.spent[id] = struct{}{}
	heap.Push(&m.queue, expiry{id, now.Add(valid)})
	return true, nil
}

type expiry struct {
	id ID
	at time.Time
}

type expiries []expiry

func (q expiries) Len() int           { return len(q) }
func (q expiries) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q expiries) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements [heap.Interface].
func (q *expiries) Push(x any) { *q = append(*q, x.(expiry)) }

// Pop implements [heap.Interface].
func (q *expiries) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Shared is a [Ledger] in Redis, for servers that share one store.
type Shared struct {
	client redis.UniversalClient
	prefix string
}

// NewShared returns a ledger with keys that begin with the prefix.
func NewShared(client redis.UniversalClient, prefix string) *Shared {
	return &Shared{client: client, prefix: prefix + ":settled:"}
}

// Spend implements [Ledger]. A call without an answer may have spent the receipt.
// A second call is then refused, which loses tokens but never creates any. The
// client of Redis repeats a command whose reply was lost: the value, which is
// different for each call, tells whether it was this call that spent the receipt.
func (s *Shared) Spend(ctx context.Context, id ID, valid time.Duration) (bool, error) {
	name := s.prefix + base64.RawURLEncoding.EncodeToString(id[:])
	call := rand.Text()
	err := s.client.SetArgs(ctx, name, call, redis.SetArgs{Mode: "NX", TTL: valid}).Err()
	if !errors.Is(err, redis.Nil) {
		return err == nil, err
	}
	stored, err := s.client.MGet(ctx, name).Result() // not GET: the documented ACL has MGET
	return err == nil && stored[0] == call, err
}
