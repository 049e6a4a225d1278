package admin

import (
	"context"
	"fmt"

	"github.com/fluxgate/fluxgate/rules"
)

// Compare returns the differences between two revisions of a rule set. 0 for to
// means the current revision, 0 for from the revision before to. Before the first
// revision there is no rule set.
func Compare(ctx context.Context, source rules.Editor, id string, from, to int64) (*Diff, error) {
	if from == 0 || to == 0 {
		var err error
		if from, to, err = pair(ctx, source, id, from, to); err != nil {
			return nil, err
		}
	}
	before, err := version(ctx, source, id, from)
	if err != nil {
		return nil, err
	}
	after, err := version(ctx, source, id, to)
	if err != nil {
		return nil, err
	}
	return &Diff{From: from, To: to, Changes: append([]rules.RuleDiff{}, rules.Diff(before, after)...)}, nil
}

// pair returns the revisions to compare, with 0 replaced.
func pair(ctx context.Context, source rules.Editor, id string, from, to int64) (before, after int64, err error) {
	until := to
	if to != 0 {
		until++ // History excludes it
	}
	last, err := source.History(ctx, id, until, 2)
	switch {
	case err != nil:
		return 0, 0, err
	case len(last) == 0:
		return 0, 0, fmt.Errorf("rule set %q: %w", id, rules.ErrNotFound)
	case to != 0 && last[0].Revision != to:
		return 0, 0, fmt.Errorf("revision %d of rule set %q: %w", to, id, rules.ErrNotFound)
	}
	to = last[0].Revision
	switch {
	case from != 0:
	case len(last) > 1:
		from = last[1].Revision
	case to > 1:
		return 0, 0, fmt.Errorf("the revision before %d of rule set %q is not kept: %w", to, id, rules.ErrNotFound)
	}
	return from, to, nil
}

// version returns a rule set at a revision, nil for 0 and for a deletion.
func version(ctx context.Context, source rules.Editor, id string, revision int64) (*rules.Set, error) {
	if revision == 0 {
		return nil, nil
	}
	v, err := source.Version(ctx, id, revision)
	if err != nil {
		return nil, err
	}
	return v.RuleSet, nil
}
