package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// overrides names the overrides of a rule set that servers do not apply.
func (d *diagnosis) overrides(ctx context.Context, source rules.Source, id string) {
	from, ok := source.(rules.Overrides)
	if !ok {
		return
	}
	version, err := source.Load(ctx, id)
	if err != nil {
		return // which is reported with the rules
	}
	total, wrong, err := d.unfit(ctx, from, version.RuleSet)
	switch {
	case err != nil:
		d.add(Wrong, "overrides", "running servers keep the last ones", "rule set %q: %v", id, err)
	case len(wrong) > 0:
		d.add(Watch, "overrides", "delete them, or correct the rules",
			"rule set %q: %d of %d overrides do not fit and are not applied, such as %v", id, len(wrong), total, wrong[0])
	case total > 0:
		d.add(Good, "overrides", "", "rule set %q has %d, and they fit their rules", id, total)
	}
}

// unfit reads all overrides of a rule set. It returns their number, and why some are not applied.
func (d *diagnosis) unfit(ctx context.Context, from rules.Overrides, set *rules.Set) (total int, wrong []error, err error) {
	buckets, err := memstore.New(memstore.Config{}) // without buckets
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = buckets.Close() }()
	table := fluxgate.NewOverrides(buckets, d.config.RateLimit.IPv6Prefix)
	for after, more := "", true; more; {
		page, err := from.ListOverrides(ctx, set.ID(), after, rules.MaxPage)
		if err != nil {
			return total, wrong, err
		}
		for i := range page.Overrides {
			o := &page.Overrides[i]
			if err := table.Check(set, o); err != nil {
				wrong = append(wrong, fmt.Errorf("%s of rule %q: %w", o.ID(), o.RuleID, err))
			}
		}
		wrong = slices.AppendSeq(wrong, maps.Values(page.Damaged))
		total += len(page.Overrides) + len(page.Damaged)
		after, more = page.Next, page.Next != ""
	}
	return total, wrong, nil
}
