package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/server/backend"
)

func (d *diagnosis) waiting(set *rules.Set) {
	if ids := backend.NeverWait(d.config, set); ids != "" {
		d.add(Watch, "waiting", "set wait-for-refill.enabled, or remove WAIT_FOR_REFILL from the rules",
			"rule set %q: requests over the limit of %s are rejected at once: WAIT_FOR_REFILL is off", set.ID(), ids)
	}
}

// forgotten is how long after its end a rule may still be there.
const forgotten = 7 * 24 * time.Hour

func (d *diagnosis) ended(set *rules.Set) {
	for r := range set.Rules() {
		if !r.Disabled && !r.Until.IsZero() && time.Since(r.Until) > forgotten {
			d.add(Watch, "ended", "remove the rule", "rule %q of rule set %q has ended at %s", r.ID, set.ID(), r.Until.Format(time.RFC3339))
		}
	}
}

// sets checks the rule sets other than the default one, and edits that a server
// would refuse. Files are valid as a whole or not at all.
func (d *diagnosis) sets(ctx context.Context, source rules.Source, first string) {
	ids := []string{first}
	if editor, ok := source.(rules.Editor); ok {
		page, err := editor.List(ctx, "", rules.MaxPage)
		if err != nil {
			d.add(Wrong, "rules", "check that the rule source is available", "cannot list the rule sets: %v", err)
		}
		for i := range page {
			if page[i].RuleSetID != first {
				ids = append(ids, page[i].RuleSetID)
			}
		}
	}
	if files, ok := source.(*filerules.Source); ok {
		if all, err := files.IDs(ctx); err == nil { // else loading the default reports the error
			ids = append(ids, all...)
		}
	}
	for _, id := range ids {
		if id != first {
			d.set(ctx, source, id)
		}
		mongo, ok := source.(*mongorules.Source)
		if !ok {
			continue
		}
		if err := mongo.Examine(ctx, id); err != nil {
			d.add(Wrong, "rules", "correct the documents; the last valid revision stays in effect", "documents of rule set %q: %v", id, err)
		}
	}
}

func (d *diagnosis) set(ctx context.Context, source rules.Source, id string) {
	version, err := source.Load(ctx, id)
	switch {
	case errors.Is(err, rules.ErrNotFound): // deleted meanwhile
	case err != nil:
		d.add(Wrong, "rules", "correct the rules; running servers keep the last valid ones", "rule set %q: %v", id, err)
	default:
		d.waiting(version.RuleSet)
		d.ended(version.RuleSet)
	}
}
