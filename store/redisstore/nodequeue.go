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

	// healing is held while the script is loaded into the node; scripts counts
	// the loads.
	healing sync.Mutex
	scripts atomic.Uint64

	// loaded bounds the log lines about them, reopened those about a breaker that
	// opens and closes all the time.
	loaded, reopened *logthrottle.Throttle
}

// submit queues requests and starts calls, or answers them at once while the
// breaker is open.
func (l *nodeQueue) submit(requests ...*shardRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range requests {
		if l.breaker.refuses(a) {
			l.store.answer(a, l.breaker.outage.err)
			continue
		}
		l.queue = append(l.queue, a)
		l.waiting += len(a.keys)
	}
	l.pump()
}

// pump starts as many calls for waiting requests as allowed. The lock is held.
func (l *nodeQueue) pump() {
	for len(l.queue) > 0 && !l.gathering {
		if l.calls >= l.store.eager {
			if l.calls >= l.store.most || time.Duration(l.keysOut)*keyTime >= l.roundTrip {
				return // a call that ends will take the waiting requests
			}
			wait := l.roundTrip/mostCalls - time.Since(l.lastStart)
			if wait > 0 {
				l.arm(wait)
				return
			}
		}
		l.calls++
		l.lastStart = time.Now()
		l.gathering = true
		if l.idle > 0 {
			l.idle--
			l.work <- true // has room for all
		} else {
			go l.serve()
		}
	}
}

// serve makes calls. It stays alive when there are none, since a new goroutine
// would spend a quarter of a call's time on growing its stack.
func (l *nodeQueue) serve() {
	for {
		l.run()
		l.mu.Lock()
		if l.idle >= eagerCalls {
			l.mu.Unlock()
			return
		}
		l.idle++
		l.mu.Unlock()
		select {
		case more := <-l.work:
			if !more {
				return // the node has left the cluster
			}
		case <-l.store.work.Context().Done():
			l.mu.Lock()
			select {
			case more := <-l.work: // it got one meanwhile
				l.mu.Unlock()
				if !more {
					return
				}
			default:
				l.idle--
				l.mu.Unlock()
				return
			}
		}
	}
}

// end ends the goroutines that wait for work, unless there are calls. It reports
// whether it did.
func (l *nodeQueue) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls > 0 || len(l.queue) > 0 {
		return false
	}
	for ; l.idle > 0; l.idle-- {
		l.work <- false // has room for all
	}
	return true
}

func (l *nodeQueue) arm(wait time.Duration) {
	if l.armed {
		return
	}
	l.armed = true
	time.AfterFunc(wait, func() {
		l.mu.Lock()
		l.armed = false
		l.pump()
		l.mu.Unlock()
	})
}

// cut removes the next batch from the queue in order, drops requests whose
// callers have left or timed out, and returns its number of keys. Calls are
// small enough to be answered while the next is decided, and larger if much is
// waiting. The lock is held.
func (l *nodeQueue) cut() (batch []*shardRequest, keys int) {
	most := min(max(goodKeys, l.waiting/2), maxKeys)
	batch = make([]*shardRequest, 0, min(len(l.queue), most))
	n, now := 0, time.Now()
	for _, a := range l.queue {
		if keys+len(a.keys) > most && len(batch) > 0 {
			break
		}
		n++
		l.waiting -= len(a.keys)
		switch {
		case a.isAbandoned():
		case now.After(a.deadline):
			l.store.answer(a, errLate)
		default:
			batch = append(batch, a)
			keys += len(a.keys)
		}
	}
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return batch, keys
}

// run sends a batch and then, for as long as there is one waiting, the next.
func (l *nodeQueue) run() {
	// Requests that become ready together, such as those of a batch of the server,
	// arrive one after the other. Let them share this call: the scheduler would
	// run it before the second arrives.
	runtime.Gosched()
	l.mu.Lock()
	l.gathering = false
	batch, keys := l.cut()
	if len(batch) == 0 {
		l.calls--
		l.mu.Unlock()
		return
	}
	l.keysOut += keys
	l.pump()
	l.mu.Unlock()
	for {
		start := time.Now()
		answeredAll := l.send(batch)
		elapsed := time.Since(start)
		if len(batch) > 1 {
			// The callers that were just answered often send the next request
			// at once. Let them, so that they share the next call instead of
			// the one after.
			runtime.Gosched()
		}

		l.mu.Lock()
		if answeredAll {
			l.learn(elapsed - time.Duration(l.keysOut)*keyTime)
		}
		if l.roundTrip > l.slow() && !l.connected {
			l.connected = true // the network has become slow
			l.store.work.Go(l.connectMore)
		}
		l.keysOut -= keys
		batch, keys = l.cut()
		if len(batch) == 0 {
			l.calls--
			l.mu.Unlock()
			return
		}
		l.keysOut += keys
		l.lastStart = time.Now()
		l.mu.Unlock()
	}
}

// connectMore opens connections for a slow network. If it fails, the next call
// tries again.
func (l *nodeQueue) connectMore(life context.Context) {
	if err := l.connect(life, l.client.Load()); err != nil {
		l.mu.Lock()
		l.connected = false
		l.mu.Unlock()
	}
}

// learn tracks about the shortest time that recent calls spent outside of the
// server.
func (l *nodeQueue) learn(outside time.Duration) {
	outside = max(outside, time.Microsecond)
	if l.roundTrip == 0 {
		l.roundTrip = outside
		return
	}
	// A network that became slow must be known after a few calls: until then too
	// few are in flight, and requests wait for two round trips.
	l.roundTrip = min(outside, l.roundTrip+l.roundTrip/2+1)
}

// address is the node's address, if known.
func (l *nodeQueue) address() string { return l.store.nodes.target.address(l) }
