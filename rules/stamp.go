package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Stamp returns the rule set after with new CreatedAt and UpdatedAt times: an
// unchanged rule, as [Diff] compares, keeps its times; a changed rule is updated
// now; a new rule is created and updated now. The times in after are ignored.
// before is nil if there was no rule set. Times are in milliseconds, which every
// source keeps exactly.
func Stamp(before, after *Set, now time.Time) (*Set, error) {
	if after == nil {
		return nil, errors.New("stamping a rule set: the rule set is nil")
	}
	now = now.UTC().Truncate(time.Millisecond)
	former := byID(before)
	stamped := slices.Collect(after.Rules())
	for i := range stamped {
		r := &stamped[i]
		old := former[r.ID]
		switch {
		case old == nil:
			r.CreatedAt, r.UpdatedAt = now, now
		case len(compare(old, r)) > 0:
			r.CreatedAt, r.UpdatedAt = old.CreatedAt, now
		default:
			r.CreatedAt, r.UpdatedAt = old.CreatedAt, old.UpdatedAt
		}
	}
	set, err := after.WithRules(stamped...)
	if err != nil {
		return nil, fmt.Errorf("stamping rule set %q: %w", after.ID(), err)
	}
	return set, nil
}
