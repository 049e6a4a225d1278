package memrules

import (
	"context"
	"sync"
)

// maxPending is how many changed rule sets a slow watcher is told of one by
// one. With more it is told that any may have changed.
const maxPending = 1_000

// watcher collects the ids that its Watch has not told yet, so that whoever
// makes a change never waits for who is told of it.
type watcher struct {
	mu      sync.Mutex
	pending map[string]struct{}
	wake    chan struct{} // of one place
}

func (w *watcher) tell(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, all := w.pending[""]; !all {
		w.pending[id] = struct{}{}
		if len(w.pending) > maxPending {
			w.pending = map[string]struct{}{"": {}}
		}
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() map[string]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := w.pending
	w.pending = map[string]struct{}{}
	return ids
}

// Watch implements [rules.Watcher]. It misses no change that is made while it
// runs; several changes of one rule set may be told as one. It returns the
// error of ctx.
func (s *Source) Watch(ctx context.Context, changed func(id string)) error {
	w := &watcher{pending: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.watchers[w] = struct{}{}
	s.mu.Unlock()
	w.tell("") // for what changed before
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
			for id := range w.take() {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				changed(id)
			}
		}
	}
}
