package rulestest_test

import (
	"context"
	"slices"

	"github.com/fluxgate/fluxgate/rules"
)

// Delete deletes a rule set, and its overrides with a fault.
func (f *faultyOverrides) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	page, err := f.Source.ListOverrides(ctx, id, "", 0)
	if err != nil {
		return 0, err
	}
	former, err := f.revision(id)
	if err != nil {
		return 0, err
	}
	revision, err := f.Source.Delete(ctx, id, change)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
	case f.is("keeps overrides of a deleted rule set"), f.is("restores overrides"):
		f.kept[id] = append(f.kept[id], page.Overrides...)
	case f.is("deletes overrides in silence"):
		f.silent[id] = former
	case f.is("deletes overrides of other rule sets"):
		for _, o := range f.plain {
			if o.RuleSetID != id {
				o = rules.Override{RuleSetID: o.RuleSetID, RuleID: o.RuleID, Identity: o.Identity, Author: o.Author, Deleted: true}
				_, _ = f.Source.PutOverrides(ctx, o.RuleSetID, []rules.Override{o})
			}
		}
	}
	return revision, err
}

// Put puts a rule set, and the overrides that a fault has kept.
func (f *faultyOverrides) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	revision, err := f.Source.Put(ctx, set, change)
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.kept[set.ID()]
	if restored := change.Comment == rules.RestoreComment(1); err != nil || len(kept) == 0 || f.is("restores overrides") && !restored {
		return revision, err
	}
	delete(f.kept, set.ID())
	for i := range kept {
		kept[i].Revision = 0
	}
	_, _ = f.Source.PutOverrides(ctx, set.ID(), kept)
	return revision, err
}

// refused is the answer to a change of overrides of a deleted rule set.
func (f *faultyOverrides) refused(ruleSet string, changes []rules.Override, err error) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.is("writes refused overrides later"):
		f.kept[ruleSet] = slices.Clone(changes)
	case f.is("writes overrides of a deleted rule set"):
		return 1, nil
	}
	return 0, err
}

// shownRevision is the revision that is shown instead of that of the overrides, or 0.
func (f *faultyOverrides) shownRevision(ruleSet string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.silent[ruleSet]
}
