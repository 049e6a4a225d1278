package cli

import (
	"context"
	"fmt"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/spf13/cobra"
)

func newRulesDelete() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete a rule set; its history stays", Args: oneRuleSet,
		Long: `Ask for confirmation, and delete a rule set. Requests that name it are then rejected; for the default
rule set and Envoy's domains ratelimit.missing-rule-behavior decides. Its history
stays, and restore brings it back.`,
		Example: "  fluxgate rules delete trial-limits --comment \"the trial is over\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				id, out := args[0], cmd.OutOrStdout()
				now, err := operator.Load(ctx, id)
				if err != nil {
					return err
				}
				printf(out, "%s, revision %d: %s\n", id, now.Revision, count(now.RuleSet.Len(), "rule"))
				if err := f.confirm.confirm(cmd, fmt.Sprintf("Delete %s %s?", id, f.target.place)); err != nil {
					return err
				}
				revision, err := operator.Delete(ctx, id, f.change(now.Revision))
				if err != nil {
					return changeError(cmd.ErrOrStderr(), id, err)
				}
				printf(out, "%s: deleted (revision %d); fluxgate rules restore %s %d brings it back\n", id, revision, id, now.Revision)
				return nil
			})
		},
	}
	f.flags(cmd)
	return cmd
}
