package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRulesHistory() *cobra.Command {
	var from target
	var limit int
	cmd := &cobra.Command{
		Use: "history ID", Short: "Show who changed a rule set, when and why", Args: oneRuleSet,
		Long:    "Show the revisions of a rule set, the newest first. Rules in files have only their current state.",
		Example: "  fluxgate rules history api-limits\n  fluxgate rules history api-limits --limit 0 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usage("--limit: must not be negative, got %d; 0 means all", limit)
			}
			return from.run(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				found, err := listRevisions(ctx, operator, args[0], limit)
				return from.show(cmd, found, err, func(out io.Writer) { writeEntries(out, found, args[0]) })
			})
		},
	}
	from.flags(cmd, asTable, asJSON, asYAML)
	cmd.Flags().IntVar(&limit, "limit", 20, "the maximum number of revisions; 0 means all")
	return cmd
}

// listRevisions reads pages until there are enough revisions, or no more.
func listRevisions(ctx context.Context, operator admin.Operator, id string, limit int) (all []admin.Entry, err error) {
	for before := int64(0); before != 1 && (limit == 0 || len(all) < limit); before = all[len(all)-1].Revision {
		page, err := operator.History(ctx, id, before, rules.PageSize(limit-len(all)))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		if next := page[len(page)-1].Revision; before > 0 && next >= before {
			return nil, fmt.Errorf("reading the history: revision %d is listed after %d", next, before)
		}
		all = appendEntries(all, page)
	}
	if len(all) == 0 {
		return nil, suggestRuleSet(ctx, operator, id, fmt.Errorf("rule set %q: %w", id, rules.ErrNotFound))
	}
	return all, nil
}
