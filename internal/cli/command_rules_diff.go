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

// difference is how one rule set differs, for programs.
type difference struct {
	RuleSet string `json:"ruleSet"`
	admin.Diff
}

func differenceOf(id string, from, to int64, changes []rules.RuleDiff) difference {
	return difference{id, admin.Diff{From: from, To: to, Changes: append([]rules.RuleDiff{}, changes...)}}
}

// diffFlags say what is compared.
type diffFlags struct {
	where    where
	files    files
	as       output
	from, to int64
}

func newRulesDiff() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use: "diff -f FILE | diff ID", Short: "Compare files with the rules that there are, or two revisions",
		Long: `With -f, say how files differ from the rules that there are: what apply would change. The exit code is 2 if they
differ. Rule sets that no file has are not looked at.
With an id, say how two revisions of a rule set differ: the last two unless --from and --to say otherwise.`,
		Example: `  fluxgate rules diff -f rules/
  fluxgate rules diff api-limits
  fluxgate rules diff api-limits --from 3 --to 7 --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(f.files.names) == 0 && len(args) == 0:
				return usage("say what to compare: -f FILE, or the id of a rule set")
			case len(f.files.names) == 0 && looksLikeFile(args[0]):
				return usage("%s compares files with -f: did you mean -f %s?", cmd.CommandPath(), args[0])
			case len(f.files.names) == 0:
				return oneRuleSet(cmd, args)
			case len(args) > 0:
				return usage("-f compares files, and an argument revisions: %q cannot stand beside -f", args[0])
			case cmd.Flags().Changed("from") || cmd.Flags().Changed("to"):
				return usage("--from and --to are for two revisions, and -f for files: leave one out")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.compareFiles(cmd)
			}
			if f.from < 0 || f.to < 0 {
				return usage("--from and --to take revisions: numbers from 1 on")
			}
			return f.where.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				return f.compareRevisions(ctx, cmd.OutOrStdout(), operator, args[0])
			})
		},
	}
	f.where.flags(cmd)
	f.files.flag(cmd)
	f.as.flag(cmd, asTable, asJSON, asYAML)
	cmd.Flags().Int64Var(&f.from, "from", 0, "the revision before (default: the one before --to)")
	cmd.Flags().Int64Var(&f.to, "to", 0, "the revision after (default: the last one)")
	return cmd
}

// compareFiles compares files with what is current.
func (f *diffFlags) compareFiles(cmd *cobra.Command) error {
	sets, err := f.files.must(cmd)
	if err != nil {
		return err
	}
	return f.where.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
		drift, all := false, f.as.list(cmd.OutOrStdout())
		for _, set := range sets {
			p, err := propose(ctx, operator, set.ID(), set)
			if err != nil {
				return err
			}
			drift = drift || p.changed()
			if f.as.format == asTable {
				err = p.print(cmd.OutOrStdout())
			} else {
				err = all.add(differenceOf(p.id, p.base, 0, p.changes))
			}
			if err != nil {
				return err
			}
		}
		if f.as.format != asTable {
			if err := all.end(""); err != nil {
				return err
			}
		}
		if drift {
			return exitCode(exitDrift)
		}
		return nil
	})
}

// compareRevisions compares two revisions of a rule set.
func (f *diffFlags) compareRevisions(ctx context.Context, out io.Writer, operator admin.Operator, id string) error {
	diff, err := admin.Compare(ctx, operator, id, f.from, f.to)
	if errors.Is(err, rules.ErrNotFound) {
		err = noRevision(ctx, operator, id, err)
	}
	if err != nil {
		return err
	}
	from, to, changes := diff.From, diff.To, diff.Changes
	return f.as.write(out, []difference{differenceOf(id, from, to, changes)}, func(out io.Writer) error {
		text := "the same"
		if len(changes) > 0 {
			text = summary(changes)
		}
		start := fmt.Sprintf("revision %d", from)
		if from == 0 {
			start = "nothing"
		}
		if _, err := fmt.Fprintf(out, "%s, from %s to revision %d: %s\n", id, start, to, text); err != nil {
			return err
		}
		return rules.WriteDiff(out, changes, diffPainter(out))
	})
}
