package reload

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// reconcileAll reconciles the rule sets in use every half interval, until life
// ends. Together with polls every half interval an edit of the source's content
// is in effect on all servers within one interval.
func (r *Reloader) reconcileAll(life context.Context, source rules.Reconciler) {
	pause(life, upTo(r.config.Interval/2)) // servers that start together do not look together
	for life.Err() == nil {
		next := time.Now().Add(r.config.Interval/2 + upTo(r.config.Jitter))
		var all sync.WaitGroup
		slots := make(chan struct{}, maxLoads)
		for _, e := range r.entries() {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				r.reconcile(life, source, e)
			})
		}
		all.Wait()
		pause(life, time.Until(next))
	}
}

// reconcileAgain reconciles a rule set whose content was not valid, so that a
// repair is noticed at once.
func (r *Reloader) reconcileAgain(ctx context.Context, e *entry) {
	if source, ok := r.source.(rules.Reconciler); ok && e.invalidContent() {
		r.reconcile(ctx, source, e)
	}
}

// reconcile has the source import edits of the content of a rule set. A new
// revision is loaded and announced. It reports whether there was no error.
func (r *Reloader) reconcile(ctx context.Context, source rules.Reconciler, e *entry) bool {
	imported, err := r.callReconcile(ctx, source, e.id)
	if ctx.Err() != nil {
		return false
	}
	switch news := e.setContentError(err, time.Now()); {
	case news && err != nil:
		r.counts.failures.Add(1)
		r.log(e, slog.LevelError, "cannot import an edit of the rules; the current revision stays in effect",
			"revision", e.snapshot().Revision, "error", err)
	case news:
		r.log(e, slog.LevelInfo, "the content of the rule source is valid again")
	}
	if imported {
		// In the background: the caller may hold this entry.
		r.background(func(life context.Context) {
			_ = r.look(life, []*entry{e}, false) // an error is in the status
			r.announceImport(life, e)
		})
	}
	return err == nil
}

func (r *Reloader) callReconcile(ctx context.Context, source rules.Reconciler, id string) (imported bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	defer recoverSource(&err)
	return source.Reconcile(ctx, id)
}

// announceImport announces a revision that this server has made of edited
// content. Servers that do not hear of it find it by polling.
func (r *Reloader) announceImport(ctx context.Context, e *entry) {
	if r.config.Strategy == Polling || r.config.Strategy == Off {
		return
	}
	announcer, err := NewAnnouncer(r.config.Redis, AnnouncerConfig{Channel: r.config.Channel, Source: "reconciler"})
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = announcer.Announce(ctx, e.id, e.snapshot().Revision)
	}
	if err != nil {
		r.config.Logger.Warn("an imported revision was not announced; other servers find it by polling", "ruleSet", e.id, "error", err)
	}
}
