package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRulesGet() *cobra.Command {
	var from target
	var revision int64
	cmd := &cobra.Command{
		Use: "get ID", Short: "Print a rule set as a document", Args: oneRuleSet,
		Long: `Print a rule set as a document for apply: the current revision, or that of --revision. Defaults are left out, so that
after an edit rules diff shows only the edit. The times of its rules (createdAt, updatedAt) are left out: the control
plane sets them, whatever a document contains. The admin API shows them.`,
		Example: `  fluxgate rules get api-limits > api-limits.yaml
  fluxgate rules get api-limits --revision 7 --output json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("revision") && revision < 1 {
				return usage("--revision: must be at least 1, got %d", revision)
			}
			return from.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				version, err := loadRevision(ctx, operator, args[0], revision)
				if err != nil {
					return err
				}
				doc, err := newRuleSetDocument(version.RuleSet)
				return from.show(cmd, doc, err, nil)
			})
		},
	}
	from.flags(cmd, asYAML, asJSON)
	from.directFlags(cmd)
	cmd.Flags().Int64Var(&revision, "revision", 0, "the revision (default: the current one)")
	return cmd
}

// loadRevision is a rule set at a revision; 0 is the current one.
func loadRevision(ctx context.Context, operator admin.Operator, id string, revision int64) (*rules.Version, error) {
	if revision == 0 {
		return operator.Load(ctx, id)
	}
	version, err := operator.Version(ctx, id, revision)
	if err == nil && version.RuleSet == nil {
		err = fmt.Errorf("revision %d deleted rule set %q: %w", revision, id, rules.ErrNotFound)
	}
	return version, adviseRevision(ctx, operator, id, err)
}

// adviseRevision replaces the error about a missing revision by its text with the
// way to list the existing ones. Files have no revisions, and their error
// explains that.
func adviseRevision(ctx context.Context, operator admin.Operator, id string, err error) error {
	if !errors.Is(err, rules.ErrNotFound) {
		return err
	}
	text := err.Error()
	if who, _ := operator.Whoami(ctx); who == nil || !who.ReadOnly {
		text += "\nsee fluxgate rules history " + id + " for the existing revisions"
	}
	return errors.New(text)
}
