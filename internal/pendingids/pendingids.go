// Package pendingids collects the ids of what has changed until a goroutine
// takes them.
package pendingids

import (
	"maps"
	"slices"
	"sync"
)

// most is how many ids are kept. With more, all may have changed.
const most = 1_000

// Set is safe for concurrent use. Use [New].
type Set struct {
	wake chan struct{}
	mu   sync.Mutex
	ids  map[string]bool
}

// New makes an empty set.
func New() *Set { return &Set{wake: make(chan struct{}, 1), ids: map[string]bool{}} }

// Add adds an id, or "" for all. It never waits.
func (s *Set) Add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids[id] = true; s.ids[""] || len(s.ids) > most {
		s.ids = map[string]bool{"": true}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Wake receives after ids were added.
func (s *Set) Wake() <-chan struct{} { return s.wake }

// Take empties the set and returns what was in it. A set with "" has no other
// id.
func (s *Set) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Collect(maps.Keys(s.ids))
	clear(s.ids)
	return ids
}
