package insight

import (
	"cmp"
	"slices"
	"sync"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// callerList is the callers with the most requests under one rule with one outcome, in the
// current window and in the last one.
type callerList struct {
	mu            sync.Mutex
	current, last sketch
}

// add counts a request of a caller, unless another one is being counted: no request waits
// for the lock.
func (l *callerList) add(engine *fluxgate.Engine, r *fluxgate.EvaluatedRule, extra *budget) {
	if !l.mu.TryLock() {
		return
	}
	// One that has replaced another is named at its next request: of many callers with one
	// request each, most are replaced before.
	if e, isNew := l.current.add(&r.Key.ID, extra); !e.named && (!isNew || e.count == 1) {
		e.named, e.length = true, uint8(engine.WriteIdentity(e.identity[:], r))
	}
	l.mu.Unlock()
}

// rotate begins a new window.
func (l *callerList) rotate(extra *budget) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.last = l.last, l.current
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
	id       store.KeyID
	count    uint64
	identity string
}

// top returns the callers with the highest counts of both windows.
func (l *callerList) top(most int) (callers []caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[store.KeyID]uint64{}
	for _, s := range []*sketch{&l.current, &l.last} {
		for i := range s.entries {
			counts[s.entries[i].id] += uint64(s.entries[i].count)
		}
	}
	for id, n := range counts {
		callers = append(callers, caller{id: id, count: n})
	}
	slices.SortFunc(callers, func(a, b caller) int { return cmp.Or(cmp.Compare(b.count, a.count), slices.Compare(a.id[:], b.id[:])) })
	callers = callers[:min(most, len(callers))]
	for i := range callers {
		callers[i].identity = l.identity(&callers[i].id)
	}
	return callers
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
