package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
)

// Stamp is the rule set after with the times of its rules as the control plane
// keeps them, whatever they say: a rule that is the same as before, as [Diff]
// sees it, keeps its times; one that has changed is updated now, and one that
// is new was also created now. Before is nil if there was none. Times go to the
// millisecond, so that every source keeps them exactly.
func Stamp(before, after *fluxgate.RuleSet, now time.Time) (*fluxgate.RuleSet, error) {
	if after == nil {
		return nil, errors.New("stamping a rule set: there is none")
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
	set, err := fluxgate.NewRuleSet(after.ID(), stamped...)
	if err != nil {
		return nil, fmt.Errorf("stamping rule set %q: %w", after.ID(), err)
	}
	return set, nil
}
