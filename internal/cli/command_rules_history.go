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
		Example: "  fluxgate rules history api-limits\n  fluxgate rules history api-limits --limit 1000 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > rules.MaxPage {
				return usage("--limit: must be 1 to %d, got %d", rules.MaxPage, limit)
			}
			return from.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				found, err := operator.History(ctx, args[0], 0, limit)
				if err == nil && len(found) == 0 {
					err = fmt.Errorf("rule set %q: %w", args[0], rules.ErrNotFound)
				}
				return from.show(cmd, found, err, func(out io.Writer) { writeEntries(out, found, args[0]) })
			})
		},
	}
	from.flags(cmd, asTable, asJSON, asYAML)
	from.directFlags(cmd)
	cmd.Flags().IntVar(&limit, "limit", 20, "the maximum number of revisions, up to 1000")
	return cmd
}
