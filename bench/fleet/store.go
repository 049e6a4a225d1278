package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// The model of the store.
const (
	oneWay   = 500 * time.Microsecond // a call to the store, and its answer
	deadline = 100 * time.Millisecond // that of a decision
	capacity = 100_000                // decisions of a master, a second
)

// store is a store of some masters, each with a queue. Its buckets are exact.
type buckets struct {
	*memstore.Store
	gateways    int
	perDecision time.Duration // for how long one occupies a master

	mu      sync.Mutex
	masters []master
	shared  int // decisions about the limit that all callers share
}

// master decides for the keys that it has, one after the other.
type master struct {
	free       time.Time // when its queue is empty
	overloaded bool
	decisions  int
}

func newStore(gateways, masters, capacity int) *buckets {
	return &buckets{
		Store:    fluxgate.Must(memstore.New(memstore.Config{MaxBuckets: 4 * callers, Salt: []byte("fleet")})),
		gateways: gateways, perDecision: time.Second / time.Duration(capacity), masters: make([]master, masters),
	}
}

// Gateways implements [store.Store].
func (s *buckets) Gateways() int { return s.gateways }

// Take implements [store.Store].
func (s *buckets) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	wait, err := s.enqueue(len(demands), func(i int) *store.Key { return &demands[i].Key })
	if err != nil {
		return err
	}
	if r, ok := ctx.(*request); ok {
		r.handOver()
	}
	time.Sleep(wait)
	err = s.Store.Take(context.Background(), demands, out)
	time.Sleep(oneWay)
	return err
}

// Settle implements [store.Store].
func (s *buckets) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	wait, err := s.enqueue(len(takes), func(i int) *store.Key { return &takes[i].Key })
	if err != nil {
		return slices.Repeat([]store.Settlement{{NotSent: err}}, len(takes)), nil
	}
	time.Sleep(wait)
	defer time.Sleep(oneWay)
	return s.Store.Settle(ctx, takes, actual)
}

// enqueue returns how long it takes until the last of n decisions is made. A call that
// would have no answer within the deadline is not sent, nor are others to that master
// until its queue is empty: this is the breaker.
func (s *buckets) enqueue(n int, key func(int) *store.Key) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, wait := time.Now(), time.Duration(0)
	for i := range n {
		m := s.master(key(i))
		queued := m.free.Sub(now)
		if m.overloaded = queued > deadline-2*oneWay || m.overloaded && queued > 0; m.overloaded {
			return 0, fmt.Errorf("%w: %v of decisions are queued", store.ErrNotSent, queued)
		}
	}
	for i := range n {
		m := s.master(key(i))
		if arrives := now.Add(oneWay); m.free.Before(arrives) {
			m.free = arrives
		}
		m.free = m.free.Add(s.perDecision)
		m.decisions++
		if key(i).Rule == "all" {
			s.shared++
		}
		wait = max(wait, m.free.Sub(now))
	}
	return wait, nil
}

func (s *buckets) master(key *store.Key) *master {
	return &s.masters[binary.LittleEndian.Uint64(key.ID[8:])%uint64(len(s.masters))]
}

// count forgets how many decisions were made until now.
func (s *buckets) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = 0
	for i := range s.masters {
		s.masters[i].decisions = 0
	}
}
