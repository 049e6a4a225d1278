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
	source, ok := r.source.(rules.Overrides)
	if !ok || r.overrides.Load() == nil || len(sets) == 0 {
		return
	}
	var revisions map[string]int64
	unknown := r.call(ctx, func(ctx context.Context) (err error) {
		revisions, err = source.OverrideRevisions(ctx, idsOf(sets))
		return err
	})
	for _, s := range sets {
		err := unknown
		if err == nil {
			err = r.updateOverrides(ctx, source, s, version, revisions[s.id])
		}
		if errors.Is(err, context.DeadlineExceeded) {
			unknown = err // the others would wait as long
		}
		if ctx.Err() == nil {
			r.note(s, &s.status.OverridesErr, err, "overrides have a problem; others, and those that are known, stay in effect",
				"all overrides are in effect again")
		}
	}
}

// updateOverrides brings the overrides of a rule set to a revision.
func (r *Reloader) updateOverrides(
	ctx context.Context, source rules.Overrides, s *ruleSet, version *fluxgate.Compiled, revision int64,
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
	read := overrideReader{r, source, s.id, known, revision, 0}
	fit := !whole && known.set == set && known.unfit == nil
	known.set = nil // if this fails, read all of them again
	err := rules.ErrOverridesLost
	if !whole {
		err = nil
		for page, failed := range read.since(ctx, known.revision) {
			if err = failed; err != nil {
				break
			}
			table.Apply(set, page)
			fit = fit && fits(table, set, page)
		}
	}
	if errors.Is(err, rules.ErrOverridesLost) {
		known.damaged, read.changes, fit = nil, 0, false
		err = table.Load(set, read.all(ctx))
	}
	if err != nil {
		return err
	}
	if known.set = set; !fit {
		known.unfit = unfit(table, set)
	}
	if read.changes > 0 {
		r.counts.add(&r.counts.Overrides)
		r.log(s, slog.LevelInfo, "overrides changed", "changes", read.changes, "revision", known.revision)
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

// overrideReader reads the overrides of a rule set.
type overrideReader struct {
	*Reloader
	source  rules.Overrides
	ruleSet string
	known   *overridesKnown
	head    int64 // of the source, before anything was read
	changes int
}

// all reads all overrides: those of the list, and then those that changed meanwhile.
func (o *overrideReader) all(ctx context.Context) iter.Seq2[[]rules.Override, error] {
	return func(yield func([]rules.Override, error) bool) {
		for after, more := "", true; more; {
			page, err := o.read(ctx, func(ctx context.Context) (rules.OverridePage, error) {
				return o.source.ListOverrides(ctx, o.ruleSet, after, rules.MaxPage)
			})
			if !yield(page.Overrides, err) || err != nil {
				return
			}
			after, more = page.Next, page.Next != ""
		}
		o.since(ctx, o.head)(yield)
	}
}

// since reads the changes since a revision.
func (o *overrideReader) since(ctx context.Context, revision int64) iter.Seq2[[]rules.Override, error] {
	return func(yield func([]rules.Override, error) bool) {
		for {
			page, err := o.read(ctx, func(ctx context.Context) (rules.OverridePage, error) {
				return o.source.OverrideChanges(ctx, o.ruleSet, revision, rules.MaxPage)
			})
			if !yield(page.Overrides, err) || err != nil {
				return
			}
			revision, o.known.revision = page.Revision, page.Revision
			if len(page.Overrides)+len(page.Damaged) < rules.MaxPage {
				return
			}
		}
	}
}

// read reads a page and notes what is damaged.
func (o *overrideReader) read(
	ctx context.Context, call func(context.Context) (rules.OverridePage, error),
) (page rules.OverridePage, err error) {
	err = o.call(ctx, func(ctx context.Context) (err error) {
		page, err = call(ctx)
		return err
	})
	o.changes += len(page.Overrides)
	for i := range page.Overrides {
		delete(o.known.damaged, page.Overrides[i].ID())
	}
	if o.known.damaged == nil {
		o.known.damaged = map[string]error{}
	}
	maps.Copy(o.known.damaged, page.Damaged)
	return page, err
}

// overridesKnown is which overrides of a rule set are in effect.
type overridesKnown struct {
	revision int64
	set      *fluxgate.Compiled // which they were applied to
	damaged  map[string]error   // why some could not be read, by id
	unfit    error
}

// problem names overrides that could not be read, or do not fit.
func (o *overridesKnown) problem() error {
	const most = 3
	errs := []error{o.unfit}
	for _, id := range slices.Sorted(maps.Keys(o.damaged)) {
		if len(errs) > most {
			return fmt.Errorf("%d overrides cannot be read: %w", len(o.damaged), errors.Join(errs...))
		}
		errs = append(errs, o.damaged[id])
	}
	return errors.Join(errs...)
}

// dropOverrides drops those of rule sets that are not in memory any more.
func (r *Reloader) dropOverrides(ruleSets ...string) {
	if table := r.overrides.Load(); table != nil {
		for _, id := range ruleSets {
			table.Drop(id)
		}
	}
}
