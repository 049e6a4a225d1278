package reload

import (
	"maps"
	"sync"
	"sync/atomic"
)

// table has the entries by id. It is read on every request and rarely
// written, so that writing copies it.
type table struct {
	entries atomic.Pointer[map[string]*entry]

	mu sync.Mutex // held while it is written
	// maxSets and maxNone bound how many entries have a rule set and how many
	// have none: ids that nobody knows must not push out rule sets.
	maxSets, maxNone int
}

func newTable(maxSets int) *table {
	t := &table{maxSets: maxSets, maxNone: max(16, maxSets/4)}
	t.entries.Store(&map[string]*entry{})
	return t
}

func (t *table) get(id string) *entry { return (*t.entries.Load())[id] }

func (t *table) all() map[string]*entry { return *t.entries.Load() }

// add returns the entry of an id and whether it is new. It is nil if there is
// no room: too many ids are being loaded.
func (t *table) add(id string, pinned bool) (e *entry, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.get(id); e != nil {
		return e, false
	}
	next := maps.Clone(t.all())
	if !pinned && !t.makeRoom(next) {
		return nil, false
	}
	e = newEntry(id, pinned)
	next[id] = e
	t.entries.Store(&next)
	return e, true
}

// makeRoom drops the unknown id that was asked for longest ago, if there are
// too many of them.
func (t *table) makeRoom(entries map[string]*entry) bool {
	none, oldest := count(entries, func(e *entry) bool { return e.current.Load() == nil })
	if none < t.maxNone {
		return true
	}
	if oldest == nil {
		return false
	}
	delete(entries, oldest.id)
	return true
}

// count says how many entries are of a kind, and which of them may be dropped
// and was used longest ago.
func count(entries map[string]*entry, kind func(*entry) bool) (n int, oldest *entry) {
	for _, e := range entries {
		if !kind(e) {
			continue
		}
		n++
		if e.pinned || !e.loaded() {
			continue
		}
		if oldest == nil || e.used.Load() < oldest.used.Load() {
			oldest = e
		}
	}
	return n, oldest
}

// trim drops the rule set that was used longest ago if there are too many.
func (t *table) trim() (dropped string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, oldest := count(t.all(), func(e *entry) bool { return e.current.Load() != nil })
	if n <= t.maxSets || oldest == nil {
		return ""
	}
	next := maps.Clone(t.all())
	delete(next, oldest.id)
	t.entries.Store(&next)
	return oldest.id
}

// dropIdle drops the entries that were last used before a round, and returns
// the ids of those that have rules.
func (t *table) dropIdle(before int64) (dropped []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := maps.Clone(t.all())
	maps.DeleteFunc(next, func(id string, e *entry) bool {
		if e.pinned || !e.loaded() || e.used.Load() >= before {
			return false
		}
		if e.current.Load() != nil {
			dropped = append(dropped, id)
		}
		return true
	})
	if len(next) < len(t.all()) {
		t.entries.Store(&next)
	}
	return dropped
}
