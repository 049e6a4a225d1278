package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

func newOverride() *cobra.Command {
	return group(&cobra.Command{
		Use: "override", Short: "Give single callers other numbers of a rule",
		Long: `Give single callers other numbers of a rule, until a moment or for good. The caller keeps the bucket, and what was used
of it carries over. Rules must be in Redis or MongoDB.`,
		Example: `  fluxgate override set --rule per-user --caller userId=acme --times 10 --for 1h --reason "launch day"
  fluxgate override list
  fluxgate override delete --rule per-user --caller userId=acme`,
	}, newOverrideSet(), newOverrideList(), newOverrideDelete(), newOverrideApply())
}

// overrideFlags are shared by the commands that change overrides.
type overrideFlags struct {
	target  target
	confirm confirmFlag
	ruleSet string
	dryRun  bool
}

func (f *overrideFlags) flags(cmd *cobra.Command) {
	f.target.flags(cmd)
	cmd.Flags().StringVar(&f.ruleSet, "rule-set", "", ruleSetHelp)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check the change, and change nothing")
}

// change checks all overrides of the rule set that read returns, and then writes or deletes them.
func (f *overrideFlags) change(
	cmd *cobra.Command, done string, read func(context.Context, admin.Operator) ([]rules.Override, error),
) error {
	return f.target.runRuleSet(cmd, &f.ruleSet, func(ctx context.Context, operator admin.Operator) error {
		if err := changeable(ctx, operator); err != nil {
			return err
		}
		changes, err := read(ctx, operator)
		if err != nil {
			return err
		}
		if err := f.put(ctx, operator, changes, true); err != nil {
			return err
		}
		if f.dryRun {
			printf(cmd.OutOrStdout(), "%s checked\n", count(len(changes), "override"))
			printf(cmd.ErrOrStderr(), "nothing was changed: this was a dry run\n")
			return nil
		}
		if err := f.confirm.confirm(cmd, fmt.Sprintf("Write %s %s?", count(len(changes), "override"), f.target.place)); err != nil {
			return err
		}
		if err := f.put(ctx, operator, changes, false); err != nil {
			return err
		}
		printf(cmd.OutOrStdout(), "%s %s; other servers follow within seconds\n", count(len(changes), "override"), done)
		return nil
	})
}

// put writes overrides, or only checks them. The error says how many calls before have written.
func (f *overrideFlags) put(ctx context.Context, operator admin.Operator, changes []rules.Override, dryRun bool) error {
	written := 0
	for part := range slices.Chunk(changes, admin.MaxOverrides) {
		err := f.putPart(ctx, operator, part, dryRun)
		switch {
		case err != nil && written > 0 && !dryRun:
			return fmt.Errorf("%w\n%d of %d overrides were written by earlier calls", err, written, len(changes))
		case err != nil:
			return err
		}
		written += len(part)
	}
	return nil
}

// putPart writes or checks the overrides of one call.
func (f *overrideFlags) putPart(ctx context.Context, operator admin.Operator, part []rules.Override, dryRun bool) error {
	err := checkNumbers(ctx, operator, f.ruleSet, part)
	if err == nil {
		_, err = operator.PutOverrides(ctx, f.ruleSet, part, dryRun)
	}
	problem := admin.ProblemOf(err)
	switch {
	case err == nil:
		return nil
	case problem != nil && len(problem.Errors) > 0:
		return errors.New(describeOverrides(problem, part))
	case !dryRun && problem == nil && uncertain(err):
		return fmt.Errorf("%s: %w\nthe change may have been made: check fluxgate override list before you try again", f.ruleSet, err)
	}
	return fmt.Errorf("%s: %w", f.ruleSet, err)
}

// checkNumbers checks whether numbers fit their rules. Servers do so too, but they do not get the
// currency of numbers.
func checkNumbers(ctx context.Context, operator admin.Operator, ruleSet string, changes []rules.Override) error {
	if !slices.ContainsFunc(changes, func(o rules.Override) bool { return len(o.Bands) > 0 }) {
		return nil
	}
	version, err := operator.Load(ctx, ruleSet)
	if err != nil {
		return err
	}
	wrong := admin.OverrideErrors{}
	for i, o := range changes {
		if rule, ok := version.RuleSet.Rule(o.RuleID); ok && len(o.Bands) > 0 {
			if _, err := rule.Overridden(0, o.Bands); err != nil {
				wrong[i] = err
			}
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

func newOverrideApply() *cobra.Command {
	var f overrideFlags
	var file string
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Write the overrides of a CSV file", Args: noArgs,
		Long: `Check the overrides of a CSV file, ask for confirmation, and write them. The first line names the columns: rule, times
or bands (JSON, with money such as "500 USD"), until, reason, and a column for each part of a caller: ip, userId,
apiKey, header:NAME, attr:NAME and so on. All are checked before one is written. Overrides that are not in the file
stay unchanged.`,
		Example: `  fluxgate override apply -f overrides.csv --dry-run
  fluxgate override apply -f overrides.csv --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in := cmd.InOrStdin()
			switch file {
			case "":
				return usage("name the overrides: -f FILE, or -f - for standard input")
			case "-":
			default:
				opened, err := os.Open(file) //nolint:gosec // the file that the caller names
				if err != nil {
					return err
				}
				defer func() { _ = opened.Close() }() // it was only read
				in = opened
			}
			return f.change(cmd, "written", func(context.Context, admin.Operator) ([]rules.Override, error) {
				all, err := rules.ParseOverrides(in, f.ruleSet)
				if err != nil {
					err = fmt.Errorf("%s: %w", file, err)
				}
				return all, err
			})
		},
	}
	f.flags(cmd)
	f.confirm.flag(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "the CSV file, or - for standard input")
	return cmd
}

// describeOverrides says which changes are not valid.
func describeOverrides(p *admin.Problem, changes []rules.Override) string {
	lines := []string{p.Detail}
	for _, e := range p.Errors {
		line := "  " + e.Message // of the rule set
		if n := len(e.Path); n > 0 {
			if i, ok := e.Path[n-1].(int); ok && i >= 0 && i < len(changes) {
				o := &changes[i]
				line = fmt.Sprintf("  override %d (%s, %s): %s", i+1, o.RuleID, callerText(o.Identity), e.Message)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// callerFlags name a rule and a caller under it.
type callerFlags struct {
	rule   string
	caller map[string]string
}

func (f *callerFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.rule, "rule", "", "the rule")
	cmd.Flags().StringToStringVar(&f.caller, "caller", nil, "what the rule counts the caller by: ip, userId, apiKey (or sha256: "+
		"and the digits of its digest), method, path, header:NAME, attr:NAME; such as userId=acme")
}

// check refuses to go on without a rule.
func (f *callerFlags) check() error {
	if !rules.ValidID(f.rule) {
		return usage("--rule is required: the id of a rule, see fluxgate rules get")
	}
	return nil
}

// callerText shows an identity on one line, and of a secret the first digits of its digest.
func callerText(identity map[string]string) string {
	parts := []string{}
	for _, name := range slices.Sorted(maps.Keys(identity)) {
		value := identity[name]
		if f, ok := keyfield.Parse(name); ok && f.Secret() {
			value = fmt.Sprintf("%.15s…", rules.DigestAPIKey(value))
		}
		parts = append(parts, name+" "+value)
	}
	if len(parts) == 0 {
		return "all callers"
	}
	return printable.Line(strings.Join(parts, ", "), 5*maxCell)
}
