package reload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// UseOverrides reads all overrides of the rule sets in use into others, and keeps these up to
// date instead: for an engine that replaces another one and has another store. Errors are in
// the status. Those of rule sets that the source has not confirmed are read with these: the
// source does not answer.
func (r *Reloader) UseOverrides(ctx context.Context, overrides *fluxgate.Overrides) {
	r.overrides.Store(overrides)
	r.readOverrides(ctx, slices.DeleteFunc(r.sets.all(), (*ruleSet).unconfirmed), nil)
}

// readOverrides reads the overrides of rule sets that have changed, for a version of the rule
// set. Nil means those in effect. Errors are in the status.
func (r *Reloader) readOverrides(ctx context.Context, sets []*ruleSet, version *fluxgate.Compiled) {
	source := r.config.OverrideSource
	if source == nil {
		source, _ = r.source.(rules.Overrides)
	}
	if source == nil || r.overrides.Load() == nil || len(sets) == 0 {
		return
	}
	said := r.newLines()
	defer said.write()
	var revisions map[string]int64
	var unknown error
	withRules := slices.DeleteFunc(slices.Clone(sets), func(s *ruleSet) bool { return cmp.Or(version, s.current.Load()) == nil })
	if len(withRules) > 0 { // ids without rules may be invented
		unknown = r.call(ctx, func(ctx context.Context) (err error) {
			revisions, err = source.OverrideRevisions(ctx, idsOf(withRules))
			return err
		})
	}
	for _, s := range sets {
		err := unknown
		if err == nil {
			err = r.updateOverrides(ctx, said, source, s, version, revisions[s.id])
		}
		if errors.Is(err, context.DeadlineExceeded) {
			unknown = err // the others would wait as long
		}
		if ctx.Err() == nil {
			r.note(said, s, &s.state.OverridesErr, err, "overrides have a problem; others, and those that are known, stay in effect",
				"all overrides are in effect again")
		}
	}
}

// updateOverrides brings the overrides of a rule set to a revision.
func (r *Reloader) updateOverrides(
	ctx context.Context, said *lines, source rules.Overrides, s *ruleSet, version *fluxgate.Compiled, revision int64,
) error {
	if err := s.overriding.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.overriding.Release(1)
	set, table := cmp.Or(version, s.current.Load()), r.overrides.Load()
	if set == nil {
		table.Drop(s.id)
		s.overrides = overridesKnown{}
		return nil
	}
	known := &s.overrides
	whole := known.set == nil || known.set != set && table.Stale(set) || known.revision > 0 && !table.Loaded(s.id)
	switch {
	case revision == 0 && known.revision > 0:
		known.set = nil // read all of them again
		return errOverridesMissing
	case known.revision == revision && (!whole || revision == 0):
		if known.set != set {
			known.unfit = unfit(table, set)
		}
		known.set = set
		return known.problem()
	}
	fit := !whole && known.set == set && known.unfit == nil
	known.set, known.changes = nil, 0 // if this fails, read all of them again
	err := rules.ErrOverridesLost
	if !whole {
		err = nil
		for page, failed := range r.overridePages(ctx, source, s.id, known, known.revision, false) {
			if err = failed; err != nil {
				break
			}
			table.Apply(set, page)
			fit = fit && fits(table, set, page)
		}
	}
	if errors.Is(err, rules.ErrOverridesLost) {
		known.damaged, known.changes, fit = nil, 0, false
		err = table.Load(set, r.overridePages(ctx, source, s.id, known, revision, true))
	}
	if err != nil {
		return err
	}
	if known.set = set; !fit {
		known.unfit = unfit(table, set)
	}
	if known.changes > 0 {
		r.counts.add(&r.counts.Overrides)
		r.log(said, s, slog.LevelInfo, "overrides changed", nil, "changes", known.changes, "revision", known.revision)
	}
	return known.problem()
}

// fits reports whether changes fit the rules. It does not look at the other overrides, which may
// be many.
func fits(table *fluxgate.Overrides, set *fluxgate.Compiled, changes []rules.Override) bool {
	return !slices.ContainsFunc(changes, func(o rules.Override) bool { return !o.Deleted && table.Check(set.Set, &o) != nil })
}

// unfit names overrides that do not fit the rules, and are not applied.
func unfit(table *fluxgate.Overrides, set *fluxgate.Compiled) error {
	problems := table.Problems(set.Set)
	if len(problems) == 0 {
		return nil
	}
	first := &problems[0]
	return fmt.Errorf("overrides that do not fit their rules are not applied: %d, such as %q of rule %q: %w",
		len(problems), first.ID, first.Rule, first.Err)
}

// errOverridesMissing is about a source that has lost its data: if the overrides had been
// deleted it would have a revision.
var errOverridesMissing = errors.New("the source has lost its overrides")

// overridePages reads the changes of overrides since a revision, or all of them and then the
// changes since.
func (r *Reloader) overridePages(
	ctx context.Context, source rules.Overrides, ruleSet string, known *overridesKnown, revision int64, all bool,
) iter.Seq2[[]rules.Override, error] {
	return func(yield func([]rules.Override, error) bool) {
		for after, more := "", true; more; {
			var page rules.OverridePage
			err := r.call(ctx, func(ctx context.Context) (err error) {
				if all {
					page, err = source.ListOverrides(ctx, ruleSet, after, rules.MaxPage)
				} else {
					page, err = source.OverrideChanges(ctx, ruleSet, revision, rules.MaxPage)
				}
				return err
			})
			known.note(&page)
			if !yield(page.Overrides, err) || err != nil {
				return
			}
			if all {
				after, all = page.Next, page.Next != ""
			} else {
				revision, known.revision = page.Revision, page.Revision
				more = len(page.Overrides)+len(page.Damaged) == rules.MaxPage
			}
		}
	}
}

// overridesKnown is which overrides of a rule set are in effect.
type overridesKnown struct {
	revision int64
	set      *fluxgate.Compiled // which they were applied to
	damaged  map[string]error   // why some could not be read, by id
	unfit    error
	changes  int // that were read last
}

// note records what a page has.
func (o *overridesKnown) note(page *rules.OverridePage) {
	o.changes += len(page.Overrides)
	for i := range page.Overrides {
		delete(o.damaged, page.Overrides[i].ID())
	}
	if o.damaged == nil {
		o.damaged = map[string]error{}
	}
	maps.Copy(o.damaged, page.Damaged)
}

// problem names overrides that could not be read, or do not fit.
func (o *overridesKnown) problem() error {
	errs := []error{o.unfit}
	if len(o.damaged) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(o.damaged)))
		errs = append(errs, fmt.Errorf("overrides that cannot be read: %d, such as: %w", len(o.damaged), o.damaged[first]))
	}
	return errors.Join(errs...)
}

// dropOverrides drops those of a rule set that is not in memory any more.
func (r *Reloader) dropOverrides(ruleSet string) {
	if table := r.overrides.Load(); table != nil {
		table.Drop(ruleSet)
	}
}
