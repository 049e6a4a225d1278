package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

func newOverrideDelete() *cobra.Command {
	var f overrideFlags
	var caller callerFlags
	cmd := &cobra.Command{
		Use: "delete [OVERRIDE]", Short: "Delete the override of one caller",
		Long: `Delete the override of one caller: by its rule and caller, or by its id, which list shows. The numbers of the rule apply
again.`,
		Example: `  fluxgate override delete --rule per-user --user acme
  fluxgate override delete 5f0c9a1b7d2e4f60a1b2c3d4e5f60718 --rule-set api-limits`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var o rules.Override
			if len(args) > 1 || len(args) == 1 && caller.rule != "" {
				return usage("name one override: by its id, or by its rule and caller")
			}
			if len(args) == 0 {
				if o, err = caller.read(); err != nil {
					return err
				}
			}
			return f.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				if len(args) == 0 {
					o.Deleted, o.RuleSetID = true, f.ruleSet
					checked, err := putOverrides(ctx, operator, f.ruleSet, []rules.Override{o}, true)
					if err != nil {
						return err
					}
					args = checked.IDs
				}
				return f.delete(ctx, cmd, operator, args[0])
			})
		},
	}
	f.flags(cmd)
	caller.flags(cmd)
	return cmd
}

// delete deletes an override as it is shown.
func (f *overrideFlags) delete(ctx context.Context, cmd *cobra.Command, operator admin.Operator, id string) error {
	o, err := operator.Override(ctx, f.ruleSet, id)
	if errors.Is(err, rules.ErrNotFound) {
		return fmt.Errorf("rule set %s has no override %s: see fluxgate override list", f.ruleSet, printable.Quote(id))
	}
	if err != nil {
		return err
	}
	deleted := rules.Override{
		RuleSetID: f.ruleSet, RuleID: o.RuleID, Identity: o.Identity, Author: f.target.signature(), Revision: o.Revision, Deleted: true,
	}
	if _, err := putOverrides(ctx, operator, f.ruleSet, []rules.Override{deleted}, f.dryRun); err != nil {
		return err
	}
	printf(cmd.OutOrStdout(), "%s, %s\n", o.RuleID, callerText(o.Identity))
	f.report(cmd, "deleted", id)
	return nil
}
