package cli

import (
	"context"
	"io"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

// ruleSetDiff is the output of diff for one rule set.
type ruleSetDiff struct {
	RuleSet string           `json:"ruleSet"`
	From    int64            `json:"from"`
	Changes []rules.RuleDiff `json:"changes"`
}

func newRulesDiff() *cobra.Command {
	var from target
	var files fileFlags
	cmd := &cobra.Command{
		Use: "diff -f FILE", Short: "Compare files with the current rules", Args: noArgs,
		Long: `Show how files differ from the current rules: what apply would change. The exit code is 2 if they differ. Rule
sets that are in no file are ignored.`,
		Example: `  fluxgate rules diff -f rules/
  fluxgate rules get api-limits --revision 7 | fluxgate rules diff -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sets, err := files.read(cmd)
			if err != nil {
				return err
			}
			return from.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				proposals, err := propose(ctx, operator, sets...)
				if err != nil {
					return err
				}
				drift, diffs := false, make([]ruleSetDiff, len(proposals))
				for i, p := range proposals {
					drift = drift || p.changed()
					diffs[i] = ruleSetDiff{p.id, p.base, append([]rules.RuleDiff{}, p.changes...)}
				}
				err = from.show(cmd, diffs, nil, func(out io.Writer) {
					for _, p := range proposals {
						p.write(out)
					}
				})
				if err == nil && drift {
					err = exitCode(exitDrift)
				}
				return err
			})
		},
	}
	from.flags(cmd, asTable, asJSON, asYAML)
	from.directFlags(cmd)
	files.flag(cmd)
	return cmd
}
