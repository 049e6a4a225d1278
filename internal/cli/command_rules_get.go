package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRulesGet() *cobra.Command {
	var from where
	var as output
	var revision int64
	cmd := &cobra.Command{
		Use: "get ID", Short: "Print a rule set as a document", Args: oneRuleSet,
		Long: `Print a rule set as a document that apply takes, as it is now or as it was at a revision. What goes without saying is
left out, so that a document that was printed, edited and applied differs in what was edited.
The times at which its rules were made and changed (createdAt, updatedAt) are left out: they are kept by the control
plane, whatever a document says. The admin API has them.`,
		Example: `  fluxgate rules get api-limits > api-limits.yaml
  fluxgate rules get api-limits --revision 7 --output json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("revision") && revision < 1 {
				return usage("--revision: %d is not a revision: it is a number from 1 on", revision)
			}
			return from.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				version, err := versionOf(ctx, operator, args[0], revision)
				if err != nil {
					return err
				}
				doc, err := documentOf(version.RuleSet)
				if err != nil {
					return err
				}
				return as.write(cmd.OutOrStdout(), doc, func(io.Writer) error { return nil })
			})
		},
	}
	from.flags(cmd)
	as.flag(cmd, asYAML, asJSON)
	cmd.Flags().Int64Var(&revision, "revision", 0, "as it was at a revision (default: as it is)")
	return cmd
}

// versionOf is a rule set at a revision, or as it is now at 0.
func versionOf(ctx context.Context, operator admin.Operator, id string, revision int64) (*rules.Version, error) {
	if revision == 0 {
		return operator.Load(ctx, id)
	}
	version, err := atRevision(ctx, operator, id, revision)
	if err == nil && version.RuleSet == nil {
		err = noRevision(ctx, operator, id, fmt.Errorf("revision %d of rule set %q took it away: %w", revision, id, rules.ErrNotFound))
	}
	return version, err
}

// atRevision is a rule set at a revision, which may be its deletion.
func atRevision(ctx context.Context, operator admin.Operator, id string, revision int64) (*rules.Version, error) {
	version, err := operator.Version(ctx, id, revision)
	if errors.Is(err, rules.ErrNotFound) {
		err = noRevision(ctx, operator, id, err)
	}
	return version, err
}

// noRevision is the error of a revision that is not there, with where to see
// those that are. Files have none, and their error says so.
func noRevision(ctx context.Context, operator admin.Operator, id string, err error) error {
	if who, _ := operator.Whoami(ctx); who != nil && who.ReadOnly {
		return &advised{err, ""}
	}
	return &advised{err, "see fluxgate rules history " + id + " for the revisions that there are"}
}
