package plane

import (
	"context"
	"fmt"

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
}

func (unavailableStore) Take(context.Context, []store.Demand, *store.Outcome) error {
	return ErrNotConnected
}
func (unavailableStore) Peek(context.Context, []store.Demand, *store.Outcome) error {
	return ErrNotConnected
}
func (unavailableStore) Settle(context.Context, store.Takes, []int64) ([]store.Settlement, error) {
	return nil, ErrNotConnected
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
