package reload

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// UseOverrides reads all overrides of the rule sets in use into others, and keeps these up to
// date instead: for an engine that replaces another one and has another store. Errors are in
// the status.
func (r *Reloader) UseOverrides(ctx context.Context, overrides *fluxgate.Overrides) {
	r.overrides.Store(overrides)
	r.refreshOverrides(ctx, r.sets.all())
}

// refreshOverrides reads the overrides of rule sets that have changed. Errors are in the status.
func (r *Reloader) refreshOverrides(ctx context.Context, sets []*ruleSet) {
	r.readOverrides(ctx, sets, func(s *ruleSet) *fluxgate.Compiled { return s.current.Load() })
}

// readOverrides reads the overrides of rule sets for versions of them.
func (r *Reloader) readOverrides(ctx context.Context, sets []*ruleSet, versionOf func(*ruleSet) *fluxgate.Compiled) {
	source, ok := r.source.(rules.Overrides)
	if !ok || r.overrides.Load() == nil {
		return
	}
	ids := make([]string, len(sets))
	for i, s := range sets {
		ids[i] = s.id
	}
	var revisions map[string]int64
	unknown := r.call(ctx, func(ctx context.Context) (err error) {
		revisions, err = source.OverrideRevisions(ctx, ids)
		return err
	})
	for _, s := range sets {
		err := unknown
		if err == nil {
			err = r.updateOverrides(ctx, source, s, versionOf(s), revisions[s.id])
		}
		if ctx.Err() == nil {
			r.overridesRead(s, err)
		}
	}
}

// overridesRead notes the result of reading overrides.
func (r *Reloader) overridesRead(s *ruleSet, err error) {
	s.mu.Lock()
	before := s.status.OverridesErr
	s.status.OverridesErr = err
	s.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		r.counts.add(&r.counts.Failures)
		r.log(s, slog.LevelError, "cannot read overrides; those that are known stay in effect", "error", err)
	case err == nil && before != nil:
		r.log(s, slog.LevelInfo, "overrides can be read again")
	}
}

// updateOverrides brings the overrides of a rule set to a revision.
func (r *Reloader) updateOverrides(
	ctx context.Context, source rules.Overrides, s *ruleSet, set *fluxgate.Compiled, revision int64,
) error {
	if err := s.overriding.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.overriding.Release(1)
	table := r.overrides.Load()
	if set == nil {
		table.Drop(s.id)
		s.overrides = overridesKnown{}
		return nil
	}
	known := s.overrides
	whole := known.set == nil || known.in != table || known.set != set && table.Stale(set)
	if s.overrides.set, s.overrides.in = set, table; !whole && known.revision == revision {
		return nil
	}
	next, changes, err := known.revision, 0, error(nil)
	if !whole {
		for page, failed := range r.overridePages(ctx, source, s.id, &next) {
			if err = failed; err != nil {
				break
			}
			changes += len(page)
			table.Apply(set, page)
		}
	}
	if whole || errors.Is(err, rules.ErrOverridesLost) {
		next = 0
		err = table.Load(set, r.overridePages(ctx, source, s.id, &next))
		changes = table.Len()
	}
	if err != nil {
		s.overrides.set = nil // read all of them again
		return err
	}
	s.overrides.revision = max(next, revision)
	if changes > 0 {
		r.counts.add(&r.counts.Overrides)
		r.log(s, slog.LevelInfo, "overrides changed", "changes", changes, "revision", s.overrides.revision)
	}
	return nil
}

// overridePages reads the changes after a revision, and sets it to that of the last one.
func (r *Reloader) overridePages(ctx context.Context, source rules.Overrides, id string, after *int64) iter.Seq2[[]rules.Override, error] {
	return func(yield func([]rules.Override, error) bool) {
		for {
			var page []rules.Override
			err := r.call(ctx, func(ctx context.Context) (err error) {
				page, err = source.OverrideChanges(ctx, id, *after, rules.MaxPage)
				return err
			})
			if err == nil && len(page) > 0 {
				*after = page[len(page)-1].Revision
			}
			if err != nil || len(page) > 0 {
				if !yield(page, err) {
					return
				}
			}
			if err != nil || len(page) < rules.MaxPage {
				return
			}
		}
	}
}

// overridesKnown is which overrides of a rule set are in effect.
type overridesKnown struct {
	revision int64
	set      *fluxgate.Compiled // which they were applied to
	in       *fluxgate.Overrides
}

// dropOverrides drops those of rule sets that are not in memory any more.
func (r *Reloader) dropOverrides(ruleSets ...string) {
	if table := r.overrides.Load(); table != nil {
		for _, id := range ruleSets {
			table.Drop(id)
		}
	}
}
