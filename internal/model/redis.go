package model

import (
	"context"
	"encoding/base64"
	"net"
	"time"

	"github.com/fluxgate/fluxgate/internal/model/redissim"
	"github.com/fluxgate/fluxgate/store"
)

// In a history with servers of Redis, every gateway has store/redisstore as it is, and go-redis: its queues and shared
// calls, two rounds over several shards, breaker, topology and connections. The servers and the network are simulated: see
// package redissim. What happens at the servers is too fine for the lines about a store, which decides one call after the
// other; spec_redis.go has the lines for it.

// redisSalt is salt for the fleet state, which demands 16 bytes.
var redisSalt = []byte("model of 16 byte")

func (w *world) salt() []byte {
	if w.servers != nil {
		return redisSalt
	}
	return salt
}

// openRedis opens store/redisstore on servers. The tests of this package set it: that package has tests with this one.
var openRedis func(h *History, addrs []string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (s store.Store, stop func(), err error)

// redisGateway is the store of a gateway in Redis.
type redisGateway struct {
	store.Store
	gateway *gateway
}

// redisStore opens the store of a gateway, as soon as there are servers.
func (g *gateway) redisStore() store.Store {
	h := g.history
	g.network = g.servers.Link(g.number, g.trip, func() bool { return g.hasFault(NotSent) })
	for {
		s, stop, err := openRedis(h, g.servers.Addrs(), g.network.Dial)
		if err == nil {
			g.stops = append(g.stops, func() {
				g.network.End()
				stop()
			})
			return &redisGateway{s, g}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (g *gateway) hasFault(fault Fault) bool {
	now := g.now()
	for _, f := range g.link.faults {
		if f.fault == fault && f.from <= now && now < f.to {
			return true
		}
	}
	return false
}

// trip is how commands travel that the gateway sends now.
func (g *gateway) trip(node int) redissim.Trip {
	now := g.now()
	u := g.draw(uint64(g.number), uint64(node), uint64(now))
	half := g.Latency / 2
	t := redissim.Trip{There: half + time.Duration(u%uint64(half/4+1)), Back: half + time.Duration(u>>32%uint64(half/4+1))}
	for _, f := range g.link.faults {
		if now < f.from || now >= f.to {
			continue
		}
		switch f.fault {
		case Slow:
			t.There, t.Back = 10*t.There, 10*t.Back
		case LostCalls:
			t.Lost = true
		case LostAnswers:
			t.Dumb = true
		case LateCalls:
			t.There += g.history.Redis.Timeout + time.Duration(u%uint64(time.Second))
		case Lossy:
			t.Lost = t.Lost || u>>16&3 == 0
			t.Dumb = t.Dumb || u>>18&3 == 0
		case Refused:
			t.Refused = true
		case ShardAway: // one of the servers
			t.Lost = t.Lost || node == 0
		case NotSent, StoreStall:
		}
	}
	return t
}

// faultRedis begins a fault of the servers.
func (f *fleet) faultRedis(op *Op) {
	if f.servers == nil {
		return
	}
	switch op.Fault {
	case StoreStall:
		f.servers.Stall(f.begun.Add(op.At + op.Span))
	case NotSent:
		for i := range f.gateways {
			if g := f.running(i); g != nil && (op.Gateway == i || op.Gateway == All) {
				g.network.Reset()
			}
		}
	default: // see trip
	}
}

// move moves the slot of a shard, key by key.
func (f *fleet) move(op *Op) {
	if f.servers == nil {
		return
	}
	const steps = 8
	shard := op.N % f.history.Redis.Shards
	f.servers.Move(shard, f.history.Redis.Shards)
	for range steps {
		time.Sleep(op.Span / steps)
		f.servers.MoveKey(shard, f.history.Redis.Shards, f.draw(uint64(f.now()))&1 == 0)
	}
	f.servers.Moved(shard, f.history.Redis.Shards)
}

// ends reports whether nothing more is to be sent: so that the engine of a gateway comes to rest.
func (s *redisGateway) ends() bool { return s.gateway.dead.Load() || s.gateway.over.Load() }

// Take implements [store.Store].
func (s *redisGateway) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if s.ends() {
		out.Prepare(demands)
		return nil
	}
	if c := checkOf(ctx); c != nil {
		s.gateway.mu.Lock()
		for i := range demands {
			if id := demands[i].Holder; id != (store.HolderID{}) {
				s.gateway.checkOf[id] = c.id
			}
		}
		s.gateway.mu.Unlock()
	}
	return s.Store.Take(ctx, demands, out)
}

// Settle implements [store.Store].
func (s *redisGateway) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if s.ends() {
		return make([]store.Settlement, len(takes)), nil
	}
	return s.Store.Settle(ctx, takes, actual)
}

// Gateways implements [store.Store].
func (s *redisGateway) Gateways() int {
	n := s.Store.Gateways()
	s.gateway.mu.Lock()
	defer s.gateway.mu.Unlock()
	if n != s.gateway.link.known {
		s.gateway.link.known = n
		s.gateway.recordLocked(&Fact{Kind: FleetSeen, Gateway: s.gateway.number, Gateways: n, Began: s.gateway.now(), Op: -1})
	}
	return n
}

// Close implements [store.Store]: the store ends with the history.
func (s *redisGateway) Close() error { return nil }

// recordServers records what was sent to the servers of Redis, and what they have in the end.
func (w *world) recordServers() {
	if w.servers == nil {
		return
	}
	named := map[string]string{} // by the name in Redis
	for id, name := range w.names {
		named[base64.RawURLEncoding.EncodeToString(id[:])] = name
	}
	bands := map[string][]store.ExactBand{} // by the name in Redis, those that were last asked for
	for _, c := range w.servers.Log() {
		for i := range c.Entries {
			e := &c.Entries[i]
			bands[e.Key] = union(bands[e.Key], e.Bands)
		}
		w.record(&Fact{Kind: ServerCalled, Gateway: c.Gateway, Began: w.now(), Op: -1, Call: c})
	}
	for _, key := range w.servers.Keys() {
		f := Fact{Kind: ServerHas, Gateway: All, Rule: key, Began: w.now(), Op: -1, Buckets: []BucketFact{{Bucket: named[key], Exact: bands[key]}}}
		for i, used := range w.servers.Used(key, bands[key]) {
			f.Buckets[0].Bands = append(f.Buckets[0].Bands, BandFact{Limit: bands[key][i].Capacity, Remaining: bands[key][i].Capacity - used})
		}
		for id := range w.servers.Held(key) {
			f.Holds = append(f.Holds, Hold{w.checkOf[id], id})
		}
		w.record(&f)
	}
}

// union adds the bands that have a value of their own.
func union(all, more []store.ExactBand) []store.ExactBand {
next:
	for _, b := range more {
		if accountOf(&b) == 1<<31 {
			continue
		}
		for _, known := range all {
			if known.ID == b.ID {
				continue next
			}
		}
		all = append(all, b)
	}
	return all
}
