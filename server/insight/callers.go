package insight

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// callerList is the callers with the most requests under one rule with one outcome, in the
// current window and in the last one.
type callerList struct {
	mu            sync.Mutex
	current, last sketch
	// missed are requests that were not counted because another one was being counted:
	// no request waits for the lock.
	missed     atomic.Uint32
	lastMissed uint32
}

// add counts a request of a caller.
func (l *callerList) add(engine *fluxgate.Engine, r *fluxgate.EvaluatedRule, extra *budget) {
	if !l.mu.TryLock() {
		l.missed.Add(1)
		return
	}
	// One that has replaced another is named at its next request: of many callers with one
	// request each, most are replaced before.
	if e, isNew := l.current.add(&r.Key.ID, extra); !e.named && (!isNew || e.over == 0) {
		e.named, e.length = true, uint8(engine.WriteIdentity(e.identity[:], r))
	}
	l.mu.Unlock()
}

// rotate begins a new window.
func (l *callerList) rotate(extra *budget) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.last = l.last, l.current
	l.lastMissed = l.missed.Swap(0)
	l.current.reset(extra)
}

// release gives the memory back.
func (l *callerList) release(extra *budget) {
	for range 4 { // twice empties both windows, twice more frees them
		l.rotate(extra)
	}
}

// caller is a caller of late.
type caller struct {
	id           store.KeyID
	count, error uint64
	identity     string
}

// top returns the callers with the highest counts of both windows, and the most requests
// that one that is not returned can have made.
func (l *callerList) top(most int) (callers []caller, floor uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	missed := uint64(l.missed.Load()) + uint64(l.lastMissed)
	for i := range l.current.entries {
		callers = append(callers, merge(&l.current.entries[i], &l.last, missed))
	}
	for i := range l.last.entries {
		if e := &l.last.entries[i]; l.current.find(&e.id) == nil {
			callers = append(callers, merge(e, &l.current, missed))
		}
	}
	slices.SortFunc(callers, func(a, b caller) int { return cmp.Or(cmp.Compare(b.count, a.count), slices.Compare(a.id[:], b.id[:])) })
	floor = uint64(l.current.lowest) + uint64(l.last.lowest) + missed
	for _, c := range callers[min(most, len(callers)):] {
		floor = max(floor, c.count+c.error)
	}
	callers = callers[:min(most, len(callers))]
	for i := range callers {
		callers[i].identity = l.identity(&callers[i].id)
	}
	return callers, floor
}

// merge adds what the other window has of a caller. The count can be too high by what an
// entry has taken over, and too low by what was missed and by what a full sketch has
// forgotten.
func merge(e *counted, other *sketch, missed uint64) caller {
	c := caller{id: e.id, count: uint64(e.count)}
	over, under := uint64(e.over), missed
	if o := other.find(&e.id); o != nil {
		c.count += uint64(o.count)
		over += uint64(o.over)
	} else {
		under += uint64(other.lowest)
	}
	c.error = max(over, under)
	return c
}

// identity returns what is known of a caller. The lock is held.
func (l *callerList) identity(id *store.KeyID) string {
	for _, s := range []*sketch{&l.current, &l.last} {
		if e := s.find(id); e != nil && e.length > 0 {
			return string(e.identity[:e.length])
		}
	}
	return ""
}

// identityOf returns what is known of a caller, or nothing.
func (l *callerList) identityOf(id *store.KeyID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.identity(id)
}
