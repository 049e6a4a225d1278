// Package pendingids collects the ids of changed objects until a goroutine takes them.
package pendingids

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// most is how many ids are kept. More are replaced by "".
const most = 1_000

// Set is safe for concurrent use. Use [New].
type Set struct {
	wake chan struct{}
	mu   sync.Mutex
	ids  map[string]bool
}

// New returns an empty set.
func New() *Set { return &Set{wake: make(chan struct{}, 1), ids: map[string]bool{}} }

// Add adds an id, or "" for all. It never blocks.
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

// Deliver calls a function with each id that was added, until ctx ends. It returns the
// error of ctx.
func (s *Set) Deliver(ctx context.Context, changed func(id string)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
			for _, id := range s.Take() {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				changed(id)
			}
		}
	}
}

// Wake returns a channel that receives after ids were added.
func (s *Set) Wake() <-chan struct{} { return s.wake }

// Take empties the set and returns its ids. If it has "", that is the only one.
func (s *Set) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Collect(maps.Keys(s.ids))
	clear(s.ids)
	return ids
}
