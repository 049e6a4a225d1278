package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Health is the state of the servers.
type Health struct {
	Mode Mode
	// Nodes are the servers that hold buckets.
	Nodes []NodeHealth
	// Uncovered is the number of shards without a known server.
	Uncovered int
	// Err is why buckets are not available on servers that answer: the fleet state, or
	// state of buckets that this process cannot read.
	Err error
	// Warnings are settings of Redis to change, and why.
	Warnings []string
}

// Healthy reports whether every bucket is available.
func (h *Health) Healthy() bool {
	for i := range h.Nodes {
		if h.Nodes[i].Err != nil {
			return false
		}
	}
	return h.Uncovered == 0 && h.Err == nil && len(h.Nodes) > 0
}

// NodeHealth is one server.
type NodeHealth struct {
	Addr    string
	Version string
	// Role is master or slave, as Redis reports it.
	Role    string
	Latency time.Duration
	// MemoryPolicy is maxmemory-policy.
	MemoryPolicy string
	// Shards is how many of the store's shards it holds.
	Shards int
	// Err is why the server is not asked, does not answer within the timeout of
	// decisions, or too many of the recent decisions failed.
	Err error
	// Since is when that began, if decisions failed: the time of the first of these
	// failures.
	Since time.Time
	// Open reports that the breaker is open: the server is only probed.
	Open bool
}

// Health returns the state of every server that holds buckets. A server is
// queried at most once a second, more often after a failed call, and not while its
// breaker is open. Health takes at most about the timeout of a decision.
func (s *Store) Health(ctx context.Context) Health {
	h := Health{Mode: s.nodes.mode, Err: cmp.Or(s.unreadable.get(), s.dropped.get())}
	if trouble := s.fleet.trouble.Load(); trouble != nil && *trouble != nil {
		h.Err = s.clean(*trouble)
	}
	masters, uncovered := s.nodes.masters()
	h.Uncovered = uncovered
	var querying sync.WaitGroup
	var found sync.Mutex
	for q, shards := range masters {
		querying.Go(func() {
			n := s.nodeHealth(ctx, q, shards)
			found.Lock()
			defer found.Unlock()
			h.Nodes = append(h.Nodes, n)
		})
	}
	querying.Wait()
	slices.SortFunc(h.Nodes, func(a, b NodeHealth) int { return strings.Compare(a.Addr, b.Addr) })
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if evicts(n.MemoryPolicy) {
			h.Warnings = append(h.Warnings, fmt.Sprintf(
				"%s has maxmemory-policy %s, which may evict buckets that are not full, so that callers exceed their limits: "+
					"use noeviction or volatile-ttl, which evicts those nearest to full",
				n.Addr, n.MemoryPolicy))
		}
		if n.Role == "slave" {
			h.Warnings = append(h.Warnings, n.Addr+" is a replica: a failover is under way, or the address is wrong")
		}
	}
	if err := s.fleet.quiet(ctx); err != nil {
		h.Warnings = append(h.Warnings, err.Error())
	}
	if h.Uncovered > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("no server is known for %d of %d shards", h.Uncovered, s.config.Shards))
	}
	return h
}

// Servers returns the mode and the known addresses of the servers that hold
// buckets. It queries no server.
func (s *Store) Servers() (Mode, []string) {
	var addrs []string
	for _, n := range s.Breakers() {
		addrs = append(addrs, n.Addr)
	}
	return s.nodes.mode, addrs
}

// evicts reports whether a policy may evict buckets that are not full.
func evicts(policy string) bool {
	return policy != "" && policy != "noeviction" && policy != "volatile-ttl"
}

// Breakers returns the breakers of the servers that hold buckets: their
// addresses, Err, Since and Open. It queries no server.
func (s *Store) Breakers() []NodeHealth {
	var nodes []NodeHealth
	masters, _ := s.nodes.masters()
	for q := range masters {
		n, _ := q.observed()
		n.Addr = q.address()
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b NodeHealth) int { return strings.Compare(a.Addr, b.Addr) })
	return nodes
}

// observed returns what calls have shown of a node.
func (q *nodeQueue) observed() (n NodeHealth, recent decisionCounts) {
	if o := q.outage(); o != nil {
		n.Err, n.Since, n.Open = o.cause, o.since, true
		return n, recent
	}
	recent = q.recent.sum(time.Now())
	if n.Err = recent.err(); n.Err != nil {
		n.Since = recent.since
	}
	return n, recent
}

func (s *Store) nodeHealth(ctx context.Context, q *nodeQueue, shards int) (n NodeHealth) {
	n, recent := q.observed()
	n.Shards = shards
	defer func() { n.Addr = q.address() }()
	if n.Open {
		return n
	}
	age, failing := time.Second, q.failing()
	if failing {
		age = s.config.Timeout
	}
	text, latency, err := q.info.get(ctx, q, age)
	if err != nil {
		// Decisions say more than one query, but there may be few: a bucket that is
		// decided without the server does not ask it again soon.
		if n.Err == nil && (failing || recent.served == 0) {
			n.Err = s.clean(err)
		}
		return n
	}
	n.Latency = latency
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redis_version":
			n.Version = value
		case "role":
			n.Role = value
		case "maxmemory_policy":
			n.MemoryPolicy = value
		}
	}
	return n
}

// failing reports whether the last call failed.
func (q *nodeQueue) failing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.breaker.inRow > 0
}

// answers reports whether a call was answered a moment ago.
func (q *nodeQueue) answers() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Since(q.breaker.answered) < q.store.config.Timeout/2
}

// nodeInfo is what a node answered to INFO, for a while.
type nodeInfo struct {
	mu      sync.Mutex
	at      time.Time
	text    string
	latency time.Duration
	err     error
}

// get returns an answer that is not older than age. A query has the time of a decision; concurrent callers
// wait for the same one.
func (i *nodeInfo) get(ctx context.Context, q *nodeQueue, age time.Duration) (text string, latency time.Duration, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.at) > age {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.store.config.Timeout)
		defer cancel()
		start := time.Now()
		i.text, i.err = q.client.Load().Info(ctx).Result()
		i.at, i.latency = time.Now(), time.Since(start)
	}
	return i.text, i.latency, i.err
}
