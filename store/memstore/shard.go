package memstore

import (
	"sync"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// entry is one remembered bucket set.
type entry struct {
	id    store.KeyID
	state bucket.State
	// full is when every band is full, in microseconds of the store's clock.
	full int64
	// queued is the value of full that the queue is ordered by. Takes increase
	// full, and the queue is updated when the entry comes to its front; tokens
	// given back and resets decrease it, and the entry stays queued until then.
	queued int64
	// seen is the clock of the shared store when it reported the level that was
	// last set: see [Store.SetLevel].
	seen int64
	// one is room for the state of a single band.
	one [1]bucket.Slot
}

// used reports whether an entry is not full yet. One that has become full and was not
// dropped yet is forgotten, also for other bands than those it was written under.
func (e *entry) used(now int64) bool { return e != nil && e.full > now }

// look brings an entry to now. No entry is a full bucket.
func (e *entry) look(bands []store.ExactBand, now int64, view *bucket.View) {
	if e.used(now) {
		e.state.View(bands, now, view)
		return
	}
	(&bucket.State{}).View(bands, now, view)
}

// adopt follows a clock that stepped back.
func (e *entry) adopt(now int64) {
	if e == nil {
		return
	}
	if e.full > e.state.At && e.state.Adopt(now) {
		e.full = now + e.state.FullAfter()
	}
}

// forget fills the bucket. The queue drops it later.
func (e *entry) forget() {
	e.state = bucket.State{Slots: e.state.Slots[:0]}
	e.full = 0
}

// shard is a part of the store under one lock. It holds its entries by key,
// and by rule in queues with those nearest to full in front.
type shard struct {
	mu      sync.Mutex
	entries map[store.KeyID]*entry
	rules   map[target]*ruleBuckets
	order   [2]ruleOrder
	most    int
	evicted uint64
	due     int64 // no entry is due to be swept before
	// The last ones dropped, to be used again.
	spare     *entry
	spareRule *ruleBuckets
	steps     []bucket.Steps // memory of the last view
	_         [64]byte       // avoids false sharing
}

func (s *shard) find(id store.KeyID) *entry { return s.entries[id] }

// write stores the new state of an entry, or adds one for the key. full is when the bands
// are full.
func (s *shard) write(e *entry, id store.KeyID, key *store.Key, bands []store.ExactBand, view *bucket.View, full int64) {
	if e == nil {
		e = s.add(id, target{key.RuleSet, key.Rule}, view.Now, full)
	}
	if !e.used(view.Now) {
		e.state.Slots = e.state.Slots[:0]
	}
	if e.full = full; e.state.Store(bands, view) {
		e.full = e.state.At + e.state.FullAfter()
	}
}

// keep makes a state that of an entry, or adds one for the key, and returns it.
func (s *shard) keep(e *entry, id store.KeyID, key *store.Key, state *bucket.State) *entry {
	full := state.At + state.FullAfter()
	if e == nil {
		e = s.add(id, target{key.RuleSet, key.Rule}, state.At, full)
	}
	e.state, e.full = *state, full
	return e
}

// add makes room for a new entry and queues it. The new entry is always stored:
// in a store full of other buckets its limit would otherwise not be counted at
// all.
func (s *shard) add(id store.KeyID, rule target, now, full int64) *entry {
	if len(s.entries) >= s.most {
		s.sweep(now)
	}
	if len(s.entries) >= s.most {
		s.evict(s.crowded(rule))
	}
	e := s.spare
	if s.spare = nil; e == nil {
		e = new(entry)
		e.state.Slots = e.one[:0]
	}
	e.id, e.queued = id, full
	s.entries[id], s.due = e, min(s.due, full)
	s.enqueue(rule, e)
	return e
}

// evict drops the entry of a rule that is nearest to full.
func (s *shard) evict(r *ruleBuckets) {
	// Entries that were taken from since they were queued move back. Each step
	// was saved by an earlier take; the bound limits how many are made up for
	// at once.
	for n := 0; n < 64 && r.queue[0].queued < r.queue[0].full; n++ {
		r.queue.delayFront(r.queue[0].full)
	}
	s.dropFront(r)
	s.evicted++
}

// sweep drops entries that are full, a few at a time.
func (s *shard) sweep(now int64) {
	for range 2 {
		rules := s.order[byFront].rules
		if s.due > now || len(rules) == 0 {
			return
		}
		r := rules[0]
		front := r.queue[0]
		switch s.due = front.queued; {
		case s.due > now:
		case front.full > now:
			r.queue.delayFront(front.full)
			s.reorder(r)
		default:
			s.dropFront(r)
		}
	}
}

func (s *shard) dropFront(r *ruleBuckets) {
	e := r.queue.popFront()
	s.reorder(r)
	delete(s.entries, e.id)
	*e = entry{state: bucket.State{Slots: e.state.Slots[:0]}}
	s.spare = e
}
