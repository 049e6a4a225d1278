package memstore

import (
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// staleFor is by how much a level may be older than the one before it and is
// ignored. A larger step is one of the shared store's clock.
const staleFor = int64(time.Second / time.Microsecond)

// SetLevel implements [store.Fallback]. The levels count from now, although they
// are a little older: that never favors the caller. They are kept under the bands
// of the shared store. For a demand with a share of these bands the same part is
// used.
func (s *Store) SetLevel(d *store.Demand, r *store.Result) {
	id := s.resets.place(&d.Key)
	shard := &s.shards[s.shardOf(id)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := s.clock()
	e := shard.find(id)
	view, held := bucket.View{Now: now, Steps: shard.steps[:0]}, &bucket.State{}
	if e.used(now) {
		held = &e.state
	}
	var full int64
	for i := range d.Bands {
		after := r.Bands[i].FullAfter.Microseconds()
		view.SetUsed(d.Bands, i, held, d.Bands[i].Capacity-r.Bands[i].Remaining+r.Bands[i].Owed, after)
		if d.Bands[i].Kind != bucket.TokenBucket {
			after = view.ForgottenAfter(d.Bands, i, view.FullAfterOf(d.Bands, i))
		}
		full = max(full, after)
	}
	shard.steps = view.Steps
	if e.hasLaterLevel(r.Now, now+full) {
		return
	}
	switch {
	case full > 0:
		if e == nil {
			e = shard.add(id, target{d.Key.RuleSet, d.Key.Rule}, now, now+full)
		}
		e.state.Slots = e.state.Slots[:0]
		e.state.Store(d.Bands, &view)
		for k := range e.state.Slots {
			e.state.Slots[k].Shared = true
		}
		e.full, e.seen = e.state.At+e.state.FullAfter(), r.Now
	case e != nil:
		e.forget()
	}
	shard.sweep(now)
}

// hasLaterLevel reports whether the entry has a level that the shared store
// reported later. Requests that share a call have the same time: the last of
// them leaves the bucket full at the latest moment.
func (e *entry) hasLaterLevel(seen, full int64) bool {
	if e == nil || e.seen < seen || e.seen-seen > staleFor {
		return false
	}
	return e.seen > seen || e.full > full
}
