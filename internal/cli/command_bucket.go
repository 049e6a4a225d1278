package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/wire"
)

func newBucket() *cobra.Command {
	return group(&cobra.Command{
		Use: "bucket", Short: "Reset the buckets of callers",
		Long:    "Reset the buckets of callers to full. fluxgate explain shows what is left in them.",
		Example: "  fluxgate bucket reset --rule-set api-limits --rule per-user --user ada",
	}, newBucketReset())
}

// resetFlags say which buckets are reset.
type resetFlags struct {
	target  target
	confirm confirmFlag
	request requestFlags

	rule, key string
}

func newBucketReset() *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use: "reset --rule-set ID", Short: "Reset buckets to full", Args: noArgs,
		Long: `Reset buckets to full: the bucket of one caller under a rule, identified by a request or by its key; all buckets of a
rule; or all of a rule set. The last two ask for confirmation. A request must have every value that the rule counts by,
such as a user.`,
		Example: `  fluxgate bucket reset --rule-set api-limits --rule per-user --user ada
  fluxgate bucket reset --rule-set api-limits --rule per-user --key 5f0c9a1b7d2e4f60a1b2c3d4e5f607188c0d96e2f1a43b75
  fluxgate bucket reset --rule-set api-limits --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			reset, err := f.read(cmd)
			if err != nil {
				return err
			}
			return f.target.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				if reset.Key == "" && reset.Request == nil {
					return f.resetAll(ctx, cmd, operator, reset)
				}
				if err := operator.Reset(ctx, reset); err != nil {
					return err
				}
				printf(cmd.OutOrStdout(), "reset the bucket of one caller of rule %s in %s\n", reset.Rule, reset.RuleSet)
				return nil
			})
		},
	}
	f.target.flags(cmd)
	f.confirm.flag(cmd)
	cmd.Flags().StringVar(&f.rule, "rule", "", "the rule (default: all rules)")
	cmd.Flags().StringVar(&f.key, "key", "", "the key of one caller's bucket, as explain shows it")
	f.request.flags(cmd, "the rule set")
	return cmd
}

// read refuses empty flags, which would name more buckets than were meant. Servers check the rest.
func (f *resetFlags) read(cmd *cobra.Command) (reset admin.Reset, err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Value.String() == "" {
			err = usage("--%s is empty: is a variable not set?", flag.Name)
		}
	})
	if err == nil && f.request.request.RuleSet == "" {
		err = usage("--rule-set is required")
	}
	if err != nil {
		return reset, err
	}
	req, err := f.request.read()
	if err != nil {
		return reset, err
	}
	reset = admin.Reset{RuleSet: req.RuleSet, Rule: f.rule, Key: f.key}
	if f.request.given() {
		request := wire.FromRequest(req)
		request.RuleSet = ""
		reset.Request = &request
	}
	return reset, nil
}

// resetAll resets all buckets of a rule or a rule set, which must exist.
func (f *resetFlags) resetAll(ctx context.Context, cmd *cobra.Command, operator admin.Operator, reset admin.Reset) error {
	version, err := operator.Load(ctx, reset.RuleSet)
	if err != nil {
		return err
	}
	buckets := "all buckets of " + reset.RuleSet
	if f.rule != "" {
		buckets = fmt.Sprintf("all buckets of rule %s in %s", f.rule, reset.RuleSet)
		if _, ok := version.RuleSet.Rule(f.rule); !ok {
			return fmt.Errorf("rule %q of rule set %q: %w", f.rule, reset.RuleSet, fluxgate.ErrNoRule)
		}
	}
	if err := f.confirm.confirm(cmd, fmt.Sprintf("Reset %s, for all callers, %s?", buckets, f.target.place)); err != nil {
		return err
	}
	reset.All = true
	if err := operator.Reset(ctx, reset); err != nil {
		return err
	}
	printf(cmd.OutOrStdout(), "reset %s; other servers follow within seconds\n", buckets)
	return nil
}
