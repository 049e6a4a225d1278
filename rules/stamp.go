package rules

import (
	"errors"
	"fmt"
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
	was, is := rulesOf(before), rulesOf(after)
	former := byID(was)
	for i := range is {
		r := &is[i]
		old, known := former[r.ID]
		switch {
		case !known:
			r.CreatedAt, r.UpdatedAt = now, now
		case len(compare(old, r)) > 0:
			r.CreatedAt, r.UpdatedAt = old.CreatedAt, now
		default:
			r.CreatedAt, r.UpdatedAt = old.CreatedAt, old.UpdatedAt
		}
	}
	stamped, err := fluxgate.NewRuleSet(after.ID(), is...)
	if err != nil {
		return nil, fmt.Errorf("stamping rule set %q: %w", after.ID(), err)
	}
	return stamped, nil
}
