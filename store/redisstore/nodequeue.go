package redisstore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// eagerCalls may be on their way to a node at any time: one that the
	// server works on, and others that are there when it is done, while the
	// callers of those before are being answered. What arrives meanwhile
	// shares the next.
	eagerCalls = 4
	// mostCalls may be on their way where the network is what is slow, spread
	// over the time of a round trip.
	mostCalls = 16
	// keyTime is about what a key costs a server, rather more than less. A
	// server that has work for a round trip gains nothing from another call.
	keyTime = 10 * time.Microsecond
)

// nodeQueue holds the requests to one node. Requests queue here, and every call takes as many
// as are waiting. A request that finds it empty is sent at once.
type nodeQueue struct {
	store  *Store
	addr   string
	client *redis.Client

	mu        sync.Mutex
	queue     []*shardRequest
	waiting   int // keys in the queue
	calls     int // on their way
	keysOut   int // in these
	lastStart time.Time
	roundTrip time.Duration // of the network, about the shortest of late
	armed     bool          // a timer will look at the queue
	idle      int           // goroutines that wait for work
	work      chan call

	// healing is held while the script is brought to the node; scripts counts
	// how often it was.
	healing sync.Mutex
	scripts atomic.Uint64

	reports reports
}

// submit queues requests and sends what may be sent.
func (l *nodeQueue) submit(requests ...*shardRequest) {
	l.mu.Lock()
	l.queue = append(l.queue, requests...)
	for _, a := range requests {
		l.waiting += len(a.keys)
	}
	l.pump()
	l.mu.Unlock()
}

// pump starts calls for what is waiting, as far as it may. The lock is held.
func (l *nodeQueue) pump() {
	for len(l.queue) > 0 {
		if l.calls >= l.store.eager {
			if l.calls >= l.store.most || time.Duration(l.keysOut)*keyTime >= l.roundTrip {
				return // a call that ends will take what waits
			}
			wait := l.roundTrip/mostCalls - time.Since(l.lastStart)
			if wait > 0 {
				l.arm(wait)
				return
			}
		}
		batch, keys := l.cut()
		if len(batch) == 0 {
			return
		}
		l.calls++
		l.keysOut += keys
		l.lastStart = time.Now()
		if l.idle > 0 {
			l.idle--
			l.work <- call{batch, keys} // has room for all
		} else {
			go l.serve(call{batch, keys})
		}
	}
}

// call is a batch on its way, and how many keys it has.
type call struct {
	batch []*shardRequest
	keys  int
}

// serve makes calls. It stays when there are none, since a new goroutine would
// spend a quarter of a call's time on growing its stack.
func (l *nodeQueue) serve(c call) {
	for {
		l.run(c.batch, c.keys)
		l.mu.Lock()
		if l.idle >= eagerCalls {
			l.mu.Unlock()
			return
		}
		l.idle++
		l.mu.Unlock()
		select {
		case c = <-l.work:
		case <-l.store.work.Context().Done():
			l.mu.Lock()
			select {
			case c = <-l.work: // it was given one meanwhile
				l.mu.Unlock()
			default:
				l.idle--
				l.mu.Unlock()
				return
			}
		}
	}
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

// cut takes the next batch off the queue, first come first served, without
// those whose callers have left or whose time is up, and says how many keys it has. Calls are
// small enough to be answered while the next is decided, and larger where much
// is waiting. The lock is held.
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
func (l *nodeQueue) run(batch []*shardRequest, keys int) {
	for {
		start := time.Now()
		answeredAll := l.send(batch)
		elapsed := time.Since(start)
		if len(batch) > 1 {
			// The callers that were just answered often ask again at once.
			// Let them, so that they share the next call instead of the one
			// after.
			runtime.Gosched()
		}

		l.mu.Lock()
		if answeredAll {
			l.learn(elapsed - time.Duration(l.keysOut)*keyTime)
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

// learn keeps about the shortest time that calls have spent outside of the
// server of late.
func (l *nodeQueue) learn(outside time.Duration) {
	outside = max(outside, time.Microsecond)
	if l.roundTrip == 0 {
		l.roundTrip = outside
		return
	}
	l.roundTrip = min(outside, l.roundTrip+l.roundTrip/64+1)
}
