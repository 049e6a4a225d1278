package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// The kinds of requests, as the script knows them.
const (
	opTake      = 0
	opPeek      = 1
	opTakeAlone = 2 // a take whose keys no other request of the call has
	opSettle    = 3 // has a section of its own
	opCharge    = 4 // a take that is sent before others: the script does not know it
	opTakeKind  = 5 // opTakeAlone of one band that is no token bucket, or of one quota of each key
)

// shardRequest is one request to one shard. It owns its memory, since its
// caller may leave while it is in flight; only the bands are shared, which
// never change.
type shardRequest struct {
	op       byte
	shard    int
	keys     []string
	demands  []store.Demand // of a take or a peek
	takes    []store.Taken  // of a settle
	actual   []int64        // costs of a settle, take by take
	deadline time.Time
	tries    int
	// asking says that the slot is moving to the node, for one try; alone that
	// the request must not share a call, since its slot is moving.
	asking, alone bool
	charge        bool

	// The answer.
	now      int64
	admitted bool
	statuses []store.Status
	levels   []int64        // before the take, band by band
	states   []bucket.State // instead, of demands whose bands are not all token buckets
	slots    []int64        // of demands that limit concurrency: how many are held, and when the first ends
	tokens   []int64        // of a settle, take by take
	// unreadable says that the state of one of the keys cannot be read, and
	// version what it calls itself.
	unreadable bool
	version    int64
	err        error

	state atomic.Int32
	done  chan struct{} // has room for the answer
	timer *time.Timer   // of its caller
}

// hasOneKey reports whether a request names one key.
func (a *shardRequest) hasOneKey() bool {
	switch {
	case len(a.keys) > 1:
		return false
	case a.op == opSettle:
		return len(a.takes[0].Bands) == 1 || slotBand(a.takes[0].Bands) < 0
	}
	return len(a.demands[0].Bands) == 1 || slotBand(a.demands[0].Bands) < 0
}

// nothingReadable reports whether no demand of a take or a peek could be
// decided. An undecided one is ignored.
func (a *shardRequest) nothingReadable() bool {
	for _, s := range a.statuses {
		if s != store.Unavailable {
			return false
		}
	}
	return a.unreadable
}

// The states of a request: the goroutine that changes it from pending handles
// its answer.
const (
	pending int32 = iota
	answered
	abandoned
)

// shardRequests are used again by callers that were answered: each would otherwise be
// half a dozen allocations for every decision.
var shardRequests = sync.Pool{New: func() any { return &shardRequest{done: make(chan struct{}, 1)} }}

func newShardRequest(op byte, shard int, deadline time.Time) *shardRequest {
	a := shardRequests.Get().(*shardRequest)
	a.op, a.shard, a.deadline, a.charge = op, shard, deadline, op == opCharge
	if a.charge {
		a.op = opTake
	}
	return a
}

// recycle returns a request to the pool. Only its caller may call it, after the
// answer, when no other goroutine has the request.
func (a *shardRequest) recycle() {
	clear(a.keys)
	clear(a.demands)
	*a = shardRequest{
		keys: a.keys[:0], demands: a.demands[:0], statuses: a.statuses[:0], levels: a.levels[:0], done: a.done, timer: a.timer,
	}
	shardRequests.Put(a)
}

// finish passes the answer to the caller, or reports that it has left.
func (a *shardRequest) finish(err error) (callerLeft bool) {
	a.err = err
	if !a.state.CompareAndSwap(pending, answered) {
		return true
	}
	a.done <- struct{}{}
	return false
}

// abandon lets the caller leave. It fails if the answer has come.
func (a *shardRequest) abandon() bool { return a.state.CompareAndSwap(pending, abandoned) }

func (a *shardRequest) isAbandoned() bool { return a.state.Load() == abandoned }

// withdrawal is what must be given back if the request is rejected.
func (a *shardRequest) withdrawal() store.Takes {
	if a.op != opTake || a.charge || a.err != nil {
		return nil
	}
	var out store.Outcome
	out.Prepare(a.demands)
	a.fill(&out, nil)
	out.Decide(a.demands)
	return store.Withdrawal(a.demands, &out)
}
