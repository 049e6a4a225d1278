package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

// ruleSetDiff is the output of diff for one rule set.
type ruleSetDiff struct {
	RuleSet string `json:"ruleSet"`
	admin.Diff
}

// diffFlags name what is compared.
type diffFlags struct {
	target   target
	files    fileFlags
	from, to int64
}

func newRulesDiff() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use: "diff -f FILE | diff ID", Short: "Compare files with the current rules, or two revisions",
		Long: `With -f, show how files differ from the current rules: what apply would change. The exit code is 2 if they differ. Rule
sets that are in no file are ignored.
With an id, show how two revisions of a rule set differ: the last two, or those of --from and --to.`,
		Example: `  fluxgate rules diff -f rules/
  fluxgate rules diff api-limits
  fluxgate rules diff api-limits --from 3 --to 7 --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(f.files.names) == 0 && len(args) == 0:
				return usage("name what to compare: -f FILE, or the id of a rule set")
			case f.from < 0 || f.to < 0:
				return usage("--from and --to must be at least 1")
			case len(f.files.names) == 0:
				return oneRuleSet(cmd, args)
			case len(args) > 0:
				return usage("-f compares files and an id compares revisions: use either -f or %q", args[0])
			case cmd.Flags().Changed("from") || cmd.Flags().Changed("to"):
				return usage("--from and --to compare revisions and cannot be used with -f")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.compareFiles(cmd)
			}
			return f.target.run(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				return f.compareRevisions(ctx, cmd, operator, args[0])
			})
		},
	}
	f.target.flags(cmd, asTable, asJSON, asYAML)
	f.files.flag(cmd)
	cmd.Flags().Int64Var(&f.from, "from", 0, "the older revision (default: the one before --to)")
	cmd.Flags().Int64Var(&f.to, "to", 0, "the newer revision (default: the last one)")
	return cmd
}

// compareFiles compares files with the current rules.
func (f *diffFlags) compareFiles(cmd *cobra.Command) error {
	sets, err := f.files.read(cmd)
	if err != nil {
		return err
	}
	return f.target.run(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
		proposals, err := propose(ctx, operator, sets...)
		if err != nil {
			return err
		}
		drift, diffs := false, make([]ruleSetDiff, len(proposals))
		for i, p := range proposals {
			drift = drift || p.changed()
			diffs[i] = ruleSetDiff{p.id, admin.Diff{From: p.base, Changes: append([]rules.RuleDiff{}, p.changes...)}}
		}
		err = f.target.show(cmd, diffs, nil, func(out io.Writer) {
			for _, p := range proposals {
				p.write(out)
			}
		})
		if err == nil && drift {
			err = exitCode(exitDrift)
		}
		return err
	})
}

// compareRevisions compares two revisions of a rule set.
func (f *diffFlags) compareRevisions(ctx context.Context, cmd *cobra.Command, operator admin.Operator, id string) error {
	diff, err := admin.Compare(ctx, operator, id, f.from, f.to)
	if err != nil {
		return adviseRevision(ctx, operator, id, err)
	}
	return f.target.show(cmd, []ruleSetDiff{{id, *diff}}, nil, func(out io.Writer) {
		before, text := fmt.Sprintf("revision %v", rules.ShownRevision(diff.From)), "the same"
		if diff.From == 0 {
			before = "nothing"
		}
		if len(diff.Changes) > 0 {
			text = summary(diff.Changes)
		}
		writeDiff(out, fmt.Sprintf("%s, from %s to revision %v: %s", id, before, rules.ShownRevision(diff.To), text), diff.Changes)
	})
}
