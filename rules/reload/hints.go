package reload

import (
	"context"
	"sync"

	"github.com/fluxgate/fluxgate/rules"
)

// hints are the rule sets that may have changed, until someone looks.
type hints struct {
	wake chan struct{}

	mu      sync.Mutex
	all     bool
	pending map[string]bool
}

// hint has a rule set looked at soon, or with "" all of them. It reports
// whether the rule set is in use here.
func (r *Reloader) hint(id string) bool {
	if id != "" && r.table.get(id) == nil {
		return false
	}
	h := &r.hints
	h.mu.Lock()
	if id == "" {
		h.all = true
	} else {
		if h.pending == nil {
			h.pending = map[string]bool{}
		}
		h.pending[id] = true
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return true
}

// hinted are the entries that hints were about since the last time.
func (r *Reloader) hinted() []*entry {
	h := &r.hints
	h.mu.Lock()
	all, pending := h.all, h.pending
	h.all, h.pending = false, nil
	h.mu.Unlock()
	if all {
		return r.entries()
	}
	var entries []*entry
	for id := range pending {
		if e := r.table.get(id); e != nil {
			entries = append(entries, e)
		}
	}
	return entries
}

// watch listens to a source that notices changes itself.
func (r *Reloader) watch(life context.Context, source rules.Watcher) {
	for life.Err() == nil {
		err := r.watchOnce(life, source)
		if life.Err() != nil {
			return
		}
		r.config.Logger.Error("the source stopped watching for changes, will try again", "error", err)
		pause(life, r.config.Interval)
		r.hint("") // for what was missed
	}
}

func (r *Reloader) watchOnce(life context.Context, source rules.Watcher) (err error) {
	defer recoverSource(&err)
	return source.Watch(life, func(id string) { r.hint(id) })
}
