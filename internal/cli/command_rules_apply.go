package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/spf13/cobra"
)

// applyFlags say what is applied, and how.
type applyFlags struct {
	changeFlags
	files  files
	dryRun bool
}

func newRulesApply() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Make the rules what files say", Args: filesOnly,
		Long: `Show how files differ from the rules that there are, ask, and make the rules what the files say. Each rule set is
replaced as a whole, on its own and only if it still is what was shown: if somebody else has changed it meanwhile
nothing is overwritten, and what they have changed is shown. Rule sets that no file has are left alone.
Where there is no terminal to ask on, and with --dry-run, nothing is applied. The exit code is 0 if the rules are what
the files say, 2 if they are not and nothing was applied, 1 if anything went wrong.`,
		Example: `  fluxgate rules apply -f api-limits.yaml
  fluxgate rules apply -f rules/ --yes --comment "$COMMIT_MESSAGE"
  fluxgate rules apply -f rules/ --direct --config fluxgate.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sets, err := f.files.must(cmd)
			if err != nil {
				return err
			}
			if err := f.change(0).Check(); err != nil {
				return &usageError{err}
			}
			return f.where.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				return f.apply(ctx, cmd, operator, sets)
			})
		},
	}
	f.flags(cmd)
	f.files.flag(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

func (f *applyFlags) apply(ctx context.Context, cmd *cobra.Command, operator admin.Operator, sets []*fluxgate.RuleSet) error {
	if err := writable(ctx, operator); err != nil {
		return err
	}
	var todo []*proposal
	for _, set := range sets {
		p, err := propose(ctx, operator, set.ID(), set)
		if err != nil {
			return err
		}
		if err := p.print(cmd.OutOrStdout()); err != nil {
			return err
		}
		if p.changed() {
			todo = append(todo, p)
		}
	}
	switch {
	case len(todo) == 0:
		return nil
	case f.dryRun:
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed: this was a dry run")
		return exitCode(exitDrift)
	}
	if err := f.confirm.ask(cmd, fmt.Sprintf("Apply this to %s %s?", count(len(todo), "rule set"), f.where.place)); err != nil {
		return err
	}
	for i, p := range todo {
		if err := f.put(ctx, cmd, operator, p); err != nil {
			return fmt.Errorf("%w%s", err, progress(todo, i))
		}
	}
	return nil
}

// progress says how far one got with several rule sets.
func progress(todo []*proposal, failed int) string {
	names := func(some []*proposal) string {
		list := make([]string, len(some))
		for i, p := range some {
			list[i] = p.id
		}
		return strings.Join(list, ", ")
	}
	text := ""
	if failed > 0 {
		text += "\napplied before that: " + names(todo[:failed])
	}
	if failed+1 < len(todo) {
		text += "\nnot tried after that: " + names(todo[failed+1:])
	}
	return text
}
