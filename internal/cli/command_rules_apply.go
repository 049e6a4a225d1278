package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// applyFlags say what is applied, and how.
type applyFlags struct {
	changeFlags
	files fileFlags
}

func newRulesApply() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Replace the rules with those in files", Args: noArgs,
		Long: `Show how files differ from the current rules, ask for confirmation, and replace the rules. Each rule set is replaced as
a whole and on its own, and only if it is still at the revision that was shown. If another operator has changed it
meanwhile, nothing is overwritten and their change is shown. Rule sets that are in no file stay unchanged. Nothing is
applied without a terminal unless --yes is given; rules diff -f only shows the difference. The exit code is 0 if the
rules are those of the files, 2 if they differ and nothing was applied, 1 on an error.

Warnings name what cannot work as it is written, as with rules validate. With --strict nothing is applied if there is
one, and the exit code is 1.`,
		Example: `  fluxgate rules apply -f api-limits.yaml
  fluxgate rules apply -f rules/ --yes --comment "$COMMIT_MESSAGE"
  fluxgate rules apply -f rules/ --direct --config fluxgate.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sets, err := f.files.read(cmd)
			if err != nil {
				return err
			}
			if err := f.files.showWarnings(cmd); err != nil {
				return errors.New("nothing was applied: there are warnings, and --strict is set")
			}
			return f.run(cmd, func(ctx context.Context, operator admin.Operator) error { return f.apply(ctx, cmd, operator, sets) })
		},
	}
	f.flags(cmd)
	f.files.flag(cmd)
	f.files.warningFlag(cmd)
	cmd.Flags().StringVar(&f.files.within, "within", "",
		"reject files outside of this folder, also behind symbolic links; use it for files that others write")
	return cmd
}

func (f *applyFlags) apply(ctx context.Context, cmd *cobra.Command, operator admin.Operator, sets []*rules.Set) error {
	proposals, err := propose(ctx, operator, sets...)
	if err != nil {
		return err
	}
	for _, p := range proposals {
		p.write(cmd.OutOrStdout())
	}
	proposals = slices.DeleteFunc(proposals, func(p *proposal) bool { return !p.changed() })
	if len(proposals) == 0 {
		return nil
	}
	if err := f.confirm.confirm(cmd, fmt.Sprintf("Apply this to %s %s?", count(len(proposals), "rule set"), f.target.place)); err != nil {
		return err
	}
	for i, p := range proposals {
		err := f.commit(cmd, p, func(change rules.Change) (int64, error) { return operator.Put(ctx, p.after, change) })
		if err != nil {
			return fmt.Errorf("%w%s%s", err, names("applied before that", proposals[:i]), names("not tried after that", proposals[i+1:]))
		}
	}
	return nil
}

// names is a line with the rule sets of proposals, if there are any.
func names(title string, proposals []*proposal) string {
	if len(proposals) == 0 {
		return ""
	}
	ids := make([]string, len(proposals))
	for i, p := range proposals {
		ids[i] = p.id
	}
	return "\n" + title + ": " + strings.Join(ids, ", ")
}
