package reload

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/rules"
)

// reconcileAll reconciles the rule sets in use every half interval. With polls
// every half interval, an edit of the source's content is in effect on all
// servers within one interval.
func (r *Reloader) reconcileAll(ctx context.Context, source rules.Reconciler) {
	_ = background.Sleep(ctx, upTo(r.config.Interval/2)) // servers that start together do not reconcile together
	var calls errgroup.Group
	calls.SetLimit(maxLoads)
	for ctx.Err() == nil {
		next := time.Now().Add(r.config.Interval/2 + upTo(r.config.Jitter))
		for _, s := range r.sets.all() {
			if !s.importing.CompareAndSwap(false, true) {
				continue // the call before this one has not returned, which must not delay other rule sets
			}
			calls.Go(func() error {
				defer s.importing.Store(false)
				_ = r.reconcile(ctx, source, s) // an error is in the status
				return nil
			})
		}
		_ = background.Sleep(ctx, time.Until(next))
	}
	_ = calls.Wait()
}

// reconcileAgain reconciles a rule set whose content was invalid, so that a repair
// takes effect at once.
func (r *Reloader) reconcileAgain(ctx context.Context, s *ruleSet) {
	if source, ok := r.source.(rules.Reconciler); ok && s.snapshot().contentErr != nil {
		_ = r.reconcile(ctx, source, s) // an error is in the status
	}
}

// reconcile lets the source import edits of a rule set. A new revision is loaded
// and announced.
func (r *Reloader) reconcile(ctx context.Context, source rules.Reconciler, s *ruleSet) error {
	if err := s.reconciling.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.reconciling.Release(1)
	imported := false
	err := r.call(ctx, func(ctx context.Context) (err error) {
		imported, err = source.Reconcile(ctx, s.id)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.note(s, &s.state.contentErr, err, "cannot import an edit of the rules; the current revision stays in effect",
		"the content of the rule source is valid again", "revision", rules.ShownRevision(s.snapshot().Revision))
	if imported {
		_ = r.refresh(ctx, []*ruleSet{s}, false) // an error is in the status
		if r.config.Strategy == PubSub || r.config.Strategy == Auto {
			config := AnnounceConfig{Channel: r.config.Channel, Source: "reconciler", Logger: r.config.Logger}
			(&announcer{r.config.Redis, config}).announce(ctx, s.id, s.snapshot().Revision)
		}
	}
	return err
}
