package reload

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/rules"
)

// firstLooks reads the revisions of rule sets that requests name for the first time. Callers can
// invent ids: those that arrive at once share a read, and reads are at least minGap apart.
type firstLooks struct {
	reading *semaphore.Weighted
	last    time.Time // of the last read, for the one who is reading

	mu      sync.Mutex
	waiting []*ruleSet // bounded, as the ids without rules are
}

// firstLook is what the source said about new rule sets.
type firstLook struct {
	*revisions
	content map[*ruleSet]bool // those with content that [rules.Reconciler] may import
}

// lookFirst reads the revision of a new rule set, with those of others. The error is that of ctx.
func (r *Reloader) lookFirst(ctx context.Context, s *ruleSet) (*firstLook, error) {
	l := &r.firstLooks
	l.mu.Lock()
	l.waiting = append(l.waiting, s)
	l.mu.Unlock()
	if err := l.reading.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer l.reading.Release(1)
	if s.firstLook != nil {
		return s.firstLook, nil // of a read for another rule set
	}
	if err := background.Sleep(ctx, minGap-time.Since(l.last)); err != nil {
		return nil, err
	}
	l.mu.Lock()
	sets := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	look := &firstLook{revisions: r.look(ctx, sets), content: map[*ruleSet]bool{}}
	l.last = time.Now()
	if source, ok := r.source.(rules.Reconciler); ok && look.err == nil {
		var none []*ruleSet
		for _, s := range sets {
			if _, known := look.heads[s.id]; !known {
				none = append(none, s)
			}
		}
		for _, s := range r.withContent(ctx, source, none) {
			look.content[s] = true
		}
	}
	for _, s := range sets {
		s.firstLook = look
	}
	return look, nil
}

// loadFirst loads a rule set for the first time. Errors are in its status.
func (r *Reloader) loadFirst(ctx context.Context, s *ruleSet) {
	defer close(s.first)
	look, err := r.lookFirst(ctx, s)
	if err != nil || r.firsts.Acquire(ctx, 1) != nil {
		return
	}
	defer r.firsts.Release(1)
	err = r.bring(ctx, []*ruleSet{s}, look.revisions, false)
	source, ok := r.source.(rules.Reconciler)
	if err != nil || !ok || s.current.Load() != nil || !look.content[s] {
		return
	}
	said := r.newLines()
	defer said.write()
	if r.reconcile(ctx, said, source, s) == nil {
		_ = r.refresh(ctx, []*ruleSet{s}, false)
	}
}
