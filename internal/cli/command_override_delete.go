package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

func newOverrideDelete() *cobra.Command {
	f := overrideFlags{confirm: confirmFlag{yes: true}}
	var caller callerFlags
	cmd := &cobra.Command{
		Use: "delete --rule ID", Short: "Delete the override of one caller", Args: noArgs,
		Long:    "Delete the override of one caller under a rule. The numbers of the rule apply again.",
		Example: "  fluxgate override delete --rule per-user --caller userId=acme",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := caller.check(); err != nil {
				return err
			}
			return f.change(cmd, "deleted", func(ctx context.Context, operator admin.Operator) ([]rules.Override, error) {
				o := rules.Override{RuleSetID: f.ruleSet, RuleID: caller.rule, Identity: caller.caller, Deleted: true}
				checked, err := operator.PutOverrides(ctx, f.ruleSet, []rules.Override{o}, true)
				if err != nil {
					return nil, err
				}
				now, err := operator.Override(ctx, f.ruleSet, checked.IDs[0])
				if errors.Is(err, rules.ErrNotFound) {
					err = fmt.Errorf("rule %s has no override of %s: see fluxgate override list", o.RuleID, callerText(o.Identity))
				}
				o.Revision = now.Revision
				return []rules.Override{o}, err
			})
		},
	}
	f.flags(cmd)
	caller.flags(cmd)
	return cmd
}
