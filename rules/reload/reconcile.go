package reload

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
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
	// Calls of a round share log lines, which are written when none is running.
	said, running := r.newLines(), atomic.Int64{}
	ended := func() {
		if running.Add(-1) == 0 {
			said.write()
		}
	}
	for ctx.Err() == nil {
		next := time.Now().Add(r.config.Interval/2 + upTo(r.config.Jitter))
		running.Add(1) // the round
		for _, s := range r.withContent(ctx, source, r.sets.all()) {
			if !s.importing.CompareAndSwap(false, true) {
				continue // the call before this one has not returned, which must not delay other rule sets
			}
			running.Add(1)
			calls.Go(func() error {
				defer ended()
				defer s.importing.Store(false)
				_ = r.reconcile(ctx, said, source, s) // an error is in the status
				return nil
			})
		}
		ended()
		_ = background.Sleep(ctx, time.Until(next))
	}
	_ = calls.Wait()
}

// withContent returns rule sets without those of which the source has no content. Callers can
// invent ids, so that all unknown ones share one read.
func (r *Reloader) withContent(ctx context.Context, source rules.Reconciler, sets []*ruleSet) []*ruleSet {
	var unknown []string
	for _, s := range sets {
		if s.unknown() {
			unknown = append(unknown, s.id)
		}
	}
	if len(unknown) == 0 {
		return sets
	}
	var found []string
	err := r.call(ctx, func(ctx context.Context) (err error) {
		found, err = source.Unimported(ctx, unknown)
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.unknown.Log(ctx, r.config.Logger, slog.LevelWarn,
			"cannot look for rules that are not imported", "ruleSets", len(unknown), "error", err)
	}
	none := make(map[string]bool, len(unknown))
	for _, id := range unknown {
		none[id] = true
	}
	for _, id := range found {
		delete(none, id)
	}
	return slices.DeleteFunc(sets, func(s *ruleSet) bool { return none[s.id] })
}

// reconcileAgain reconciles a rule set whose content was invalid, so that a repair
// takes effect at once.
func (r *Reloader) reconcileAgain(ctx context.Context, s *ruleSet) {
	if source, ok := r.source.(rules.Reconciler); ok && s.snapshot().contentErr != nil {
		said := r.newLines()
		defer said.write()
		_ = r.reconcile(ctx, said, source, s) // an error is in the status
	}
}

// reconcile lets the source import edits of a rule set. A new revision is loaded
// and announced.
func (r *Reloader) reconcile(ctx context.Context, said *lines, source rules.Reconciler, s *ruleSet) error {
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
	r.note(said, s, &s.state.contentErr, err, "cannot import an edit of the rules; the current revision stays in effect",
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
