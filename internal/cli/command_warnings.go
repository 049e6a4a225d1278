package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
)

func newWarnings() *cobra.Command {
	var from target
	var limit int
	cmd := &cobra.Command{
		Use: "warnings", Short: "Show which limits have reached their warning levels", Args: noArgs,
		Long:    "Show the last warnings of limits with warnAt, of all servers, newest first.",
		Example: "  fluxgate warnings\n  fluxgate warnings --limit 10 --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > admin.MaxWarnings {
				return usage("--limit: must be 1 to %d", admin.MaxWarnings)
			}
			return from.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				found, err := operator.Warnings(ctx, limit)
				return from.show(cmd, found, err, func(out io.Writer) { writeWarnings(out, found) })
			})
		},
	}
	from.flags(cmd, asTable, asJSON, asYAML)
	cmd.Flags().IntVar(&limit, "limit", 20, "the most warnings to show")
	return cmd
}

func writeWarnings(out io.Writer, found []admin.Warning) {
	if len(found) == 0 {
		printf(out, "no limit with warnAt has reached a warning level\n")
	}
	t := table{optional: map[string]string{"CALLER": none}}
	t.columns = []string{"TIME", "RULE SET", "RULE", "LIMIT", "AT", "USED", "CALLER", "KEY"}
	for i := range found {
		w := &found[i]
		t.add(moment(&w.Time), w.RuleSet, w.Rule, w.Limit, fmt.Sprintf("%d%%", w.Percent), w.Text, w.Identity, w.Key)
	}
	t.write(out)
}
