package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRulesRestore() *cobra.Command {
	var f changeFlags
	var revision int64
	cmd := &cobra.Command{
		Use: "restore ID REVISION", Short: "Make a former revision current again",
		Long: `Show how a former revision differs from the current rules, ask for confirmation, and make it current again as a new
revision. This also brings back a deleted rule set, without its overrides.`,
		Example: `  fluxgate rules restore api-limits 7
  fluxgate rules restore api-limits 7 --yes --comment "the new limits were too low"`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) != 2 {
				return usage("%s takes a rule set id and a revision, got %s", cmd.CommandPath(), count(len(args), "argument"))
			}
			if revision, err = strconv.ParseInt(args[1], 10, 64); err != nil || revision < 1 {
				return usage("%q is not a revision: use a number from 1 on, see fluxgate rules history", args[1])
			}
			return checkRuleSet(args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				former, err := loadRevision(ctx, operator, args[0], revision)
				if err != nil {
					return err
				}
				proposals, err := propose(ctx, operator, former.RuleSet)
				if err != nil {
					return err
				}
				p := proposals[0]
				if p.write(cmd.OutOrStdout()); !p.changed() {
					return nil
				}
				if err := f.confirm.confirm(cmd, fmt.Sprintf("Restore revision %d of %s %s?", revision, p.id, f.target.place)); err != nil {
					return err
				}
				return f.commit(cmd, p, func(change rules.Change) (int64, error) { return operator.Restore(ctx, p.id, revision, change) })
			})
		},
	}
	f.flags(cmd)
	return cmd
}
