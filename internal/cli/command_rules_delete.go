package cli

import (
	"context"
	"fmt"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRulesDelete() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete a rule set and its overrides; its history stays", Args: oneRuleSet,
		Long: `Ask for confirmation, and delete a rule set. Requests that name it are then rejected; for the default
rule set and Envoy's domains ratelimit.missing-rule-behavior decides. Its history
stays, and restore brings it back. Its overrides are deleted too, and restore does not bring them back.`,
		Example: "  fluxgate rules delete trial-limits --comment \"the trial is over\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				id, out := args[0], cmd.OutOrStdout()
				now, err := operator.Load(ctx, id)
				if err != nil {
					return err
				}
				printf(out, "%s, revision %d: %s%s\n", id, now.Revision, count(now.RuleSet.Len(), "rule"), andOverrides(ctx, operator, id))
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

// andOverrides says how many overrides a rule set has, if any. Those of a source without overrides, or
// of an older server, are none.
func andOverrides(ctx context.Context, operator admin.Operator, id string) string {
	page, err := operator.ListOverrides(ctx, id, "", rules.MaxPage)
	n := len(page.Overrides)
	switch {
	case err != nil || n == 0:
		return ""
	case page.Next != "":
		return fmt.Sprintf(", more than %s", count(n, "override"))
	}
	return ", " + count(n, "override")
}
