package redisstore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/redis/go-redis/v9"
)

const (
	// eagerCalls may always be in flight to a node: one that the server runs,
	// and others that are ready when it is done. Requests that arrive meanwhile
	// share the next call.
	eagerCalls = 4
	// mostCalls may be in flight if the network is slow, spread over the time
	// of a round trip.
	mostCalls = 16
	// keyTime is an upper estimate of what a key costs a server. A server that
	// has work for a round trip gains nothing from another call.
	keyTime = 10 * time.Microsecond
)

// nodeQueue holds the requests to one node. Requests queue here, and every call takes as many
// as are waiting. A request that finds it empty is sent at once.
type nodeQueue struct {
	store  *Store
	addr   string
	client atomic.Pointer[redis.Client]

	mu        sync.Mutex
	queue     []*shardRequest
	waiting   int // keys in the queue
	calls     int // in flight
	keysOut   int // in these
	lastStart time.Time
	roundTrip time.Duration // of the network, about the shortest recent one
	connected bool          // connections for a slow network are open, or being opened
	gathering bool          // a call was started and has not taken its requests yet
	armed     bool          // a timer will check the queue
	idle      int           // goroutines that wait for work
	work      chan bool     // tells one of them to make calls, or to end
	breaker   breaker

	recent recentDecisions
	info   nodeInfo

	// loading is held while the script is loaded into the node; scripts counts
	// the loads.
	loading sync.Mutex
	scripts atomic.Uint64

	// loaded bounds the log lines about them, reopened those about a breaker that
	// opens and closes all the time, failures those about failed decisions.
	loaded, reopened, failures *logthrottle.Throttle
}

// submit queues requests and starts calls, or answers them at once while the
// breaker is open.
func (q *nodeQueue) submit(requests ...*shardRequest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range requests {
		if q.breaker.refuses(r) {
			q.store.answer(r, q.breaker.outage.err)
			continue
		}
		q.queue = append(q.queue, r)
		q.waiting += len(r.keys)
	}
	q.pump()
}

// pump starts as many calls for waiting requests as allowed. The lock is held.
func (q *nodeQueue) pump() {
	for len(q.queue) > 0 && !q.gathering {
		if q.calls >= q.store.eager {
			if q.calls >= q.store.most || time.Duration(q.keysOut)*keyTime >= q.roundTrip {
				return // a call that ends will take the waiting requests
			}
			wait := q.roundTrip/mostCalls - time.Since(q.lastStart)
			if wait > 0 {
				q.arm(wait)
				return
			}
		}
		q.calls++
		q.lastStart = time.Now()
		q.gathering = true
		if q.idle > 0 {
			q.idle--
			q.work <- true // has room for all
		} else {
			go q.serve()
		}
	}
}

// serve makes calls. It stays alive when there are none, since a new goroutine
// would spend a quarter of a call's time on growing its stack.
func (q *nodeQueue) serve() {
	var memory callMemory
	for {
		q.run(&memory)
		q.mu.Lock()
		if q.idle >= eagerCalls {
			q.mu.Unlock()
			return
		}
		q.idle++
		q.mu.Unlock()
		select {
		case more := <-q.work:
			if !more {
				return // the node has left the cluster
			}
		case <-q.store.work.Context().Done():
			q.mu.Lock()
			select {
			case more := <-q.work: // it got one meanwhile
				q.mu.Unlock()
				if !more {
					return
				}
			default:
				q.idle--
				q.mu.Unlock()
				return
			}
		}
	}
}

// end ends the goroutines that wait for work, unless there are calls. It reports
// whether it did.
func (q *nodeQueue) end() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.calls > 0 || len(q.queue) > 0 {
		return false
	}
	for ; q.idle > 0; q.idle-- {
		q.work <- false // has room for all
	}
	return true
}

func (q *nodeQueue) arm(wait time.Duration) {
	if q.armed {
		return
	}
	q.armed = true
	time.AfterFunc(wait, func() {
		q.mu.Lock()
		q.armed = false
		q.pump()
		q.mu.Unlock()
	})
}

// cut removes the next batch from the queue in order, drops requests whose
// callers have left or timed out, and returns its number of keys. Calls are
// small enough to be answered while the next is decided, and larger if much is
// waiting. The lock is held.
func (q *nodeQueue) cut(batch []*shardRequest) (_ []*shardRequest, keys int) {
	most := min(max(goodKeys, q.waiting/2), maxKeys)
	clear(batch)
	batch = batch[:0]
	n, now := 0, time.Now()
	for _, r := range q.queue {
		if keys+len(r.keys) > most && len(batch) > 0 {
			break
		}
		n++
		q.waiting -= len(r.keys)
		switch {
		case now.After(r.deadline):
			q.store.answer(r, errUnsent)
		case r.begin():
			batch = append(batch, r)
			keys += len(r.keys)
		}
	}
	rest := copy(q.queue, q.queue[n:])
	clear(q.queue[rest:])
	q.queue = q.queue[:rest]
	return batch, keys
}

// callMemory is the memory of a goroutine that makes calls.
type callMemory struct {
	batch    []*shardRequest
	groups   []*scriptCall
	commands []*redis.StringCmd
}

// run sends a batch and then, for as long as there is one waiting, the next.
func (q *nodeQueue) run(m *callMemory) {
	// Requests that become ready together, such as those of a batch of the server,
	// arrive one after the other. Let them share this call: the scheduler would
	// run it before the second arrives.
	runtime.Gosched()
	q.mu.Lock()
	q.gathering = false
	var keys int
	if m.batch, keys = q.cut(m.batch); len(m.batch) == 0 {
		q.calls--
		q.mu.Unlock()
		return
	}
	q.keysOut += keys
	q.pump()
	q.mu.Unlock()
	for {
		start := time.Now()
		answeredAll := q.send(m)
		elapsed := time.Since(start)
		if len(m.batch) > 1 {
			// The callers that were just answered often send the next request
			// at once. Let them, so that they share the next call instead of
			// the one after.
			runtime.Gosched()
		}

		q.mu.Lock()
		if answeredAll {
			q.learn(elapsed - time.Duration(q.keysOut)*keyTime)
		}
		if q.roundTrip > q.slow() && !q.connected {
			q.connected = true // the network has become slow
			q.store.work.Go(q.connectMore)
		}
		q.keysOut -= keys
		if m.batch, keys = q.cut(m.batch); len(m.batch) == 0 {
			q.calls--
			q.mu.Unlock()
			return
		}
		q.keysOut += keys
		q.lastStart = time.Now()
		q.mu.Unlock()
	}
}

// connectMore opens connections for a slow network. If it fails, the next call
// tries again.
func (q *nodeQueue) connectMore(life context.Context) {
	if err := q.connect(life, q.client.Load(), q.connectTimeout()); err != nil {
		q.mu.Lock()
		q.connected = false
		q.mu.Unlock()
	}
}

// learn tracks about the shortest time that recent calls spent outside of the
// server.
func (q *nodeQueue) learn(outside time.Duration) {
	outside = max(outside, time.Microsecond)
	if q.roundTrip == 0 {
		q.roundTrip = outside
	}
	// A network that became slow must be known after a few calls: until then too
	// few are in flight, and requests wait for two round trips.
	q.roundTrip = min(outside, q.roundTrip+q.roundTrip/2+1)
	q.store.roundTrip.Store(int64(min(q.roundTrip, q.store.config.Timeout)))
}

// address is the node's address, if known.
func (q *nodeQueue) address() string { return q.store.nodes.target.address(q) }
