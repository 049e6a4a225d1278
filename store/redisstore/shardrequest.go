package redisstore

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

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
	opDebit     = 6 // a take of a request that is rejected already
)

// shardRequest is one request to one shard. It owns its memory, since its
// caller may leave while it is in flight; only the bands are shared, which
// never change.
type shardRequest struct {
	op       byte
	shard    int
	keys     []string
	names    []byte         // of the keys
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
	levels   []int64         // before the take, band by band
	states   []bucket.State  // instead, of demands whose bands are not all token buckets
	steps    []bucket.Steps  // memory to view them
	slots    []int64         // of demands that limit concurrency: how many are held, and when the first ends
	tokens   []int64         // of a settle, take by take
	settled  []*store.Result // the levels then, nil for takes from token buckets alone
	// unreadable says that the state of one of the keys cannot be read, and
	// version what it calls itself.
	unreadable bool
	version    int64
	spoiled    bool // the answer cannot be read, although those to other requests can
	err        error

	state atomic.Int32
	done  chan struct{} // has room for the answer
	timer *time.Timer   // of its caller
}

// addKey adds the key of a bucket set with these bands: of its holders if they are all it has.
// The string shares the memory of the request, which is not used again while a call has it.
func (r *shardRequest) addKey(n *names, k *store.Key, bands []store.ExactBand, g generations) {
	begin := len(r.names)
	r.names = n.appendKey(r.names, k, g)
	if len(bands) == 1 && slotBand(bands) == 0 {
		r.names = append(r.names, holdersSuffix...)
	}
	name := r.names[begin:]
	r.keys = append(r.keys, unsafe.String(&name[0], len(name))) //nolint:gosec // see above
}

// hasOneKey reports whether a request names one key.
func (r *shardRequest) hasOneKey() bool {
	switch {
	case len(r.keys) > 1:
		return false
	case r.op == opSettle:
		return len(r.takes[0].Bands) == 1 || slotBand(r.takes[0].Bands) < 0
	}
	return len(r.demands[0].Bands) == 1 || slotBand(r.demands[0].Bands) < 0
}

// reportsLevel reports whether the script answers the state after a settlement.
func (r *shardRequest) reportsLevel(take int) bool {
	return r.actual[take] != renewSlots && isMixed(r.takes[take].Bands)
}

// nothingReadable reports whether no demand of a take or a peek could be
// decided. An undecided one is ignored.
func (r *shardRequest) nothingReadable() bool {
	for _, s := range r.statuses {
		if s != store.Unavailable {
			return false
		}
	}
	return r.unreadable
}

// The states of a request. It is in a queue or waits for its next try, or a call has it, until
// it is answered or its caller leaves: the goroutine that changes the state handles the answer.
const (
	queued int32 = iota
	sent
	answered
	withdrawn // its caller has left before it was sent: it never is
	abandoned // its caller has left while a call had it, and does not know whether that runs
)

// requestPool has requests whose callers were answered, to be used again: each would otherwise be half
// a dozen allocations for every decision. Each store has its own, since a request has a channel and a
// timer, which tests on virtual time must not share.
type requestPool struct{ pool sync.Pool }

func (p *requestPool) get(op byte, shard int, deadline time.Time) *shardRequest {
	if r, ok := p.pool.Get().(*shardRequest); ok {
		return r.reuse(op, shard, deadline)
	}
	return newShardRequest(op, shard, deadline)
}

// put returns a request to the pool. Only its caller may call it, after the answer, when no other
// goroutine has the request.
func (p *requestPool) put(r *shardRequest) {
	clear(r.keys)
	clear(r.demands)
	*r = shardRequest{
		keys: r.keys[:0], names: r.names[:0], demands: r.demands[:0], statuses: r.statuses[:0], levels: r.levels[:0],
		states: r.states[:0], steps: r.steps, done: r.done, timer: r.timer,
	}
	p.pool.Put(r)
}

func newShardRequest(op byte, shard int, deadline time.Time) *shardRequest {
	r := &shardRequest{done: make(chan struct{}, 1), timer: time.NewTimer(0)}
	return r.reuse(op, shard, deadline)
}

func (r *shardRequest) reuse(op byte, shard int, deadline time.Time) *shardRequest {
	r.op, r.shard, r.deadline, r.charge = op, shard, deadline, op == opCharge
	if r.charge {
		r.op = opTake
	}
	return r
}

// finish passes the answer to the caller, or reports that it has left.
func (r *shardRequest) finish(err error) (callerLeft bool) {
	r.err = err
	if !r.state.CompareAndSwap(sent, answered) && !r.state.CompareAndSwap(queued, answered) {
		return true
	}
	r.done <- struct{}{}
	return false
}

// begin notes that a call has the request. It fails if its caller has left.
func (r *shardRequest) begin() bool { return r.state.CompareAndSwap(queued, sent) }

// rejoin notes that the call did not run. It fails if the caller has left.
func (r *shardRequest) rejoin() bool {
	return r.state.CompareAndSwap(sent, queued) || r.state.Load() == queued
}

// leave lets the caller leave, and reports whether the request was never sent and will not be. It fails
// if the answer has come.
func (r *shardRequest) leave() (never, ok bool) {
	for {
		if r.state.CompareAndSwap(queued, withdrawn) {
			return true, true
		}
		if r.state.CompareAndSwap(sent, abandoned) {
			return false, true
		}
		if r.state.Load() == answered {
			return false, false
		}
	}
}

// withdrawal is what must be given back if the request is rejected.
func (r *shardRequest) withdrawal() store.Takes {
	if r.op != opTake || r.charge || r.err != nil {
		return nil
	}
	var out store.Outcome
	out.Prepare(r.demands)
	r.fill(&out, nil)
	out.Decide(r.demands)
	return store.Withdrawal(r.demands, &out)
}
