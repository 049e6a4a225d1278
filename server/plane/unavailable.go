package plane

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// ErrNotConnected is the error of the store while Redis has not answered since the start.
var ErrNotConnected = fmt.Errorf("%w: %w: no connection since the start", redisstore.ErrUnavailable, store.ErrNotSent)

// unavailableStore replaces Redis until it answers. Its salt is that of the local
// store, which is random: a constant would let callers compute their shard. The
// engine over Redis has another salt, and so other keys: the counts of the local
// store until then are not continued.
type unavailableStore struct {
	store.Unshared
	salt    []byte
	servers int
	redis   *atomic.Pointer[shared] // once it has answered
}

func (unavailableStore) Take(context.Context, []store.Demand, *store.Outcome) error {
	return ErrNotConnected
}
func (unavailableStore) Peek(context.Context, []store.Demand, *store.Outcome) error {
	return ErrNotConnected
}
func (unavailableStore) Extend(context.Context, store.Takes) ([]bool, error) {
	return nil, ErrNotConnected
}
func (unavailableStore) Reset(context.Context, store.Reset) (bool, error) {
	return false, ErrNotConnected
}
func (unavailableStore) Warn(context.Context, *store.Warning) error { return ErrNotConnected }
func (s unavailableStore) Salt() []byte                             { return s.salt }
func (s unavailableStore) Gateways() int                            { return s.servers }
func (unavailableStore) Close() error                               { return nil }

// Settle implements [store.Store]. Receipts of other servers are settled when Redis has answered: the
// engine sends again what was not sent. The local buckets until then are not continued, nor are their
// settlements.
func (s unavailableStore) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if err := store.CheckTakes(takes, actual); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(takes, func(t store.Taken) bool { return t.Source == store.FromFallback }) {
		return nil, ErrNotConnected
	}
	if redis := s.redis.Load(); redis != nil {
		return redis.Settle(ctx, takes, actual)
	}
	return slices.Repeat([]store.Settlement{{NotSent: ErrNotConnected}}, len(takes)), nil
}
