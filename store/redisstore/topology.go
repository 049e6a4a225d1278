package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/redis/go-redis/v9"
)

// topology maps shards to nodes. Without a cluster one node holds all shards.
type topology struct {
	store   *Store
	target  target
	cluster bool
	mode    Mode

	// shards is the queue of each shard's master.
	shards atomic.Pointer[[]*nodeQueue]

	mu     sync.Mutex
	queues map[string]*nodeQueue // by address
	closed bool                  // no more of them

	refreshing atomic.Bool
	failed     *logthrottle.Throttle // bounds the log lines about it
}

// newTopology finds the node of each shard. The result must be closed, also
// with an error.
func newTopology(ctx context.Context, s *Store, target target) (*topology, error) {
	t := &topology{store: s, target: target, mode: s.config.Mode, queues: map[string]*nodeQueue{}, failed: logthrottle.New(time.Minute)}
	t.shards.Store(new([]*nodeQueue))
	if t.mode == ModeAuto {
		t.mode = target.mode
	}
	if target.client == nil && t.mode == ModeSentinel {
		return t, errors.New("mode sentinel needs a redis-sentinel:// URI or a client made for Sentinel")
	}
	first := t.reach(target.addrs[0])
	if t.mode == ModeAuto {
		t.mode = ModeStandalone
		info, err := first.client.Load().InfoMap(ctx, "cluster").Result()
		if err != nil {
			return t, fmt.Errorf("%w: asking %s for its topology: %w", ErrUnavailable, first.addr, err)
		}
		if info["Cluster"]["cluster_enabled"] == "1" {
			t.mode = ModeCluster
		}
	}
	t.cluster = t.mode == ModeCluster
	if !t.cluster {
		all := slices.Repeat([]*nodeQueue{first}, s.config.Shards)
		t.shards.Store(&all)
		return t, nil
	}
	err := t.refresh(ctx)
	return t, err
}

// queue is the queue to a shard's master, or nil if none is known.
func (t *topology) queue(shard int) *nodeQueue { return (*t.shards.Load())[shard] }

// masters returns how many shards each node holds, and how many no known node does.
func (t *topology) masters() (masters map[*nodeQueue]int, uncovered int) {
	masters = map[*nodeQueue]int{}
	for _, q := range *t.shards.Load() {
		masters[q]++
	}
	uncovered = masters[nil]
	delete(masters, nil)
	return masters, uncovered
}

// reach returns the queue of the node at an address, or nil if the address is
// empty or the store is closed.
func (t *topology) reach(addr string) *nodeQueue {
	if addr == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if q, ok := t.queues[addr]; ok {
		return q
	}
	if t.closed {
		return nil
	}
	q := &nodeQueue{
		store: t.store, addr: addr, work: make(chan bool, mostCalls),
		loaded: logthrottle.New(time.Second), reopened: logthrottle.New(10 * time.Second), failures: logthrottle.New(failureLines),
	}
	q.client.Store(t.target.connect(addr, t.store.config))
	t.queues[addr] = q
	return q
}

// has reports whether a queue is in use: not if the store is closed or its node
// has left the cluster.
func (t *topology) has(q *nodeQueue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.closed && t.queues[q.addr] == q
}

// learn applies a MOVED reply and refreshes the topology.
func (t *topology) learn(shard int, addr string) {
	if to := t.reach(addr); to != nil && t.cluster {
		t.mu.Lock()
		next := append([]*nodeQueue(nil), *t.shards.Load()...)
		next[shard] = to
		t.shards.Store(&next)
		t.mu.Unlock()
	}
	t.refreshSoon()
}

// refreshSoon refreshes the topology, once for all callers.
func (t *topology) refreshSoon() {
	if !t.cluster || !t.refreshing.CompareAndSwap(false, true) {
		return
	}
	t.store.work.Go(func(life context.Context) {
		ctx, cancel := context.WithTimeout(life, time.Second)
		defer cancel()
		err := t.refresh(ctx)
		if err != nil {
			t.failed.Log(context.Background(), t.store.log, slog.LevelWarn,
				"the cluster's slots could not be looked up", "error", t.store.clean(err))
		}
		// Not more often than this, however many requests are redirected.
		_ = background.Sleep(life, 20*time.Millisecond)
		t.refreshing.Store(false)
	})
}

// refresh asks the nodes, one after the other, for the slots of the cluster.
func (t *topology) refresh(ctx context.Context) error {
	failures := []error{errNoNode}
	for _, q := range t.known() {
		own, cancel := context.WithTimeout(ctx, t.store.config.Timeout+200*time.Millisecond)
		slots, err := q.client.Load().ClusterSlots(own).Result() //nolint:staticcheck // CLUSTER SHARDS is of Redis 7, and we keep to 6.2
		cancel()
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", q.addr, err))
			continue
		}
		t.adopt(q.addr, slots)
		return nil
	}
	return errors.Join(failures...)
}

// known are the nodes to ask: those that hold shards, then all others, and after these the
// nodes that do not answer.
func (t *topology) known() []*nodeQueue {
	for _, addr := range t.target.addrs {
		t.reach(addr)
	}
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.queues))
	t.mu.Unlock()
	masters, _ := t.masters()
	rank := func(q *nodeQueue) int {
		switch {
		case q.outage() != nil:
			return 2
		case masters[q] == 0:
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b *nodeQueue) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

// adopt puts each shard on the master of its slot.
func (t *topology) adopt(from string, slots []redis.ClusterSlot) {
	n := t.store.config.Shards
	next := make([]*nodeQueue, n)
	for i := range next {
		slot := int(slotOfShard(i, n))
		for _, r := range slots {
			if slot >= r.Start && slot <= r.End && len(r.Nodes) > 0 {
				next[i] = t.reach(withHost(r.Nodes[0].Addr, from))
			}
		}
	}
	t.mu.Lock()
	t.shards.Store(&next)
	t.mu.Unlock()
	t.prune()
}

// withHost fills in the host of the node that answered, if it does not know its
// own.
func withHost(addr, from string) string {
	if !strings.HasPrefix(addr, ":") || !strings.Contains(from, ":") {
		return addr
	}
	return from[:strings.LastIndexByte(from, ':')] + addr
}

// prune closes connections to nodes that left the cluster if there are many: in
// some environments every restart has a new address.
func (t *topology) prune() {
	t.mu.Lock()
	defer t.mu.Unlock()
	inUse, _ := t.masters()
	if len(t.queues) <= 4*len(inUse)+16 {
		return
	}
	for addr, q := range t.queues {
		if inUse[q] > 0 || !q.end() {
			continue
		}
		delete(t.queues, addr)
		_ = q.client.Load().Close()
	}
}

func (t *topology) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	var failures []error
	for _, q := range t.queues {
		if err := q.client.Load().Close(); !errors.Is(err, redis.ErrClosed) { // a probe may have closed it
			failures = append(failures, err)
		}
	}
	if t.target.dials != nil {
		failures = append(failures, t.target.dials.close())
	}
	return errors.Join(failures...)
}

// group makes the calls for a batch: one, or in a cluster one for each shard,
// and one for each request that must be alone.
func (s *Store) group(batch []*shardRequest, groups []*scriptCall) []*scriptCall {
	for _, r := range batch {
		i := slices.IndexFunc(groups, func(c *scriptCall) bool {
			first := c.batch[0]
			return !r.alone && !first.alone && (first.shard == r.shard || !s.nodes.cluster)
		})
		if i < 0 {
			i, groups = len(groups), append(groups, callPool.Get().(*scriptCall))
		}
		groups[i].batch = append(groups[i].batch, r)
	}
	return groups
}
