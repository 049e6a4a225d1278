package cli

import (
	"context"
	"fmt"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRulesRestore() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use: "restore ID REVISION", Short: "Make a former revision current again",
		Long: `Show how a former revision differs from the rules that there are, ask, and make it current again under a new
revision. A rule set that was deleted comes back.`,
		Example: "  fluxgate rules restore api-limits 7\n  fluxgate rules restore api-limits 7 --yes --comment \"the new limits were too low\"",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("%s takes the id of a rule set and a revision, and got %s", cmd.CommandPath(), count(len(args), "argument"))
			}
			if _, err := parseRevision(args[1]); err != nil {
				return err
			}
			return checkRuleSet(args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := parseRevision(args[1])
			if err != nil {
				return err
			}
			if f.comment == "" {
				f.comment = rules.RestoreComment(revision)
			}
			if err := f.change(0).Check(); err != nil {
				return &usageError{err}
			}
			return f.where.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				return f.restore(ctx, cmd, operator, args[0], revision)
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func (f *changeFlags) restore(ctx context.Context, cmd *cobra.Command, operator admin.Operator, id string, revision int64) error {
	if err := writable(ctx, operator); err != nil {
		return err
	}
	former, err := versionOf(ctx, operator, id, revision)
	if err != nil {
		return err
	}
	p, err := propose(ctx, operator, id, former.RuleSet)
	if err != nil {
		return err
	}
	if err := p.print(cmd.OutOrStdout()); err != nil || !p.changed() {
		return err
	}
	if err := f.confirm.ask(cmd, fmt.Sprintf("Restore revision %d of %s %s?", revision, id, f.where.place)); err != nil {
		return err
	}
	return f.make(cmd, p, func(change rules.Change) (int64, error) { return operator.Restore(ctx, id, revision, change) })
}

func newRulesDelete() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Take a rule set away; its history stays", Args: oneRuleSet,
		Long: `Ask, and take a rule set away. Requests that name it are then decided as ratelimit.missing-rule-behavior says. Its
history stays, and restore brings it back.`,
		Example: "  fluxgate rules delete trial-limits --comment \"the trial is over\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.change(0).Check(); err != nil {
				return &usageError{err}
			}
			return f.where.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				return f.remove(ctx, cmd, operator, args[0])
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func (f *changeFlags) remove(ctx context.Context, cmd *cobra.Command, operator admin.Operator, id string) error {
	if err := writable(ctx, operator); err != nil {
		return err
	}
	now, err := operator.Load(ctx, id)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s, revision %d: %s\n", id, now.Revision, count(now.RuleSet.Len(), "rule"))
	if err != nil {
		return err
	}
	if err := f.confirm.ask(cmd, fmt.Sprintf("Delete %s %s?", id, f.where.place)); err != nil {
		return err
	}
	revision, err := operator.Delete(ctx, id, f.change(now.Revision))
	if err != nil {
		return refused(cmd.ErrOrStderr(), id, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: deleted (revision %d); fluxgate rules restore %s %d brings it back\n", id, revision, id, now.Revision)
	return err
}
