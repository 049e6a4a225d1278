package receipt

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxSpent is how many spent receipts a Memory holds.
const maxSpent = 1_000_000

// ErrFull means that a Memory holds too many spent receipts of a rule set to accept another.
// Nothing was settled. Slots may still be released, since a second release has no effect.
var ErrFull = errors.New("too many receipts of the rule set were settled recently")

// ErrDenied means that the ledger denies to remember receipts: the user of a [Shared] lacks a
// permission. Nothing was settled.
var ErrDenied = errors.New("the ledger denies access")

// Memory is a [Ledger] of one process.
type Memory struct {
	now func() time.Time

	mu    sync.Mutex
	spent map[ID]struct{}
	queue []expiry       // the same, in the order in which they were spent
	count map[string]int // the same, by rule set
}

// NewMemory returns a ledger with the given clock.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, spent: make(map[ID]struct{}), count: make(map[string]int)}
}

// Spend implements [Ledger]. A receipt that cannot be stored is not accepted, since it
// could be spent twice. A rule set may store at most as many receipts as there is room
// left: one rule set alone fills half of the ledger, and others always have room.
func (m *Memory) Spend(_ context.Context, id ID, ruleSet, _ string, valid time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	// All are valid for the same time, so the first expires first. If the clock was set back,
	// some are kept for longer.
	for len(m.queue) > 0 && m.queue[0].at < now.UnixNano() {
		m.forget(m.queue[0])
		m.queue = m.queue[1:]
	}
	if _, again := m.spent[id]; again {
		return false, nil
	}
	if m.count[ruleSet] >= maxSpent-len(m.spent) {
		return false, ErrFull
	}
	m.spent[id] = struct{}{}
	m.count[ruleSet]++
	m.queue = append(m.queue, expiry{id, now.Add(valid).UnixNano(), ruleSet})
	return true, nil
}

func (m *Memory) forget(e expiry) {
	delete(m.spent, e.id)
	if m.count[e.ruleSet]--; m.count[e.ruleSet] == 0 {
		delete(m.count, e.ruleSet)
	}
}

type expiry struct {
	id      ID
	at      int64 // in Unix nanoseconds
	ruleSet string
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

// Spend implements [Ledger]. A call without an answer may have spent the receipt. Another
// call is then rejected, which loses tokens but never creates any. The value in Redis is the
// name of the call, and shows whether this call spent the receipt: it is repeated by the client
// of Redis, and when Redis is available again.
func (s *Shared) Spend(ctx context.Context, id ID, _, call string, valid time.Duration) (bool, error) {
	name := s.prefix + base64.RawURLEncoding.EncodeToString(id[:])
	err := s.client.SetArgs(ctx, name, call, redis.SetArgs{Mode: "NX", TTL: valid}).Err()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return false, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	if !errors.Is(err, redis.Nil) {
		return err == nil, err
	}
	stored, err := s.client.MGet(ctx, name).Result() // not GET: the documented ACL has MGET
	return err == nil && stored[0] == call, err
}
