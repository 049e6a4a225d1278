package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// setFlags are an override.
type setFlags struct {
	overrideFlags
	caller              callerFlags
	times, bands, until string
	reason              string
	duration            time.Duration
}

func newOverrideSet() *cobra.Command {
	var f setFlags
	cmd := &cobra.Command{
		Use: "set --rule ID", Short: "Write the override of one caller", Args: noArgs,
		Long: `Write the override of one caller under a rule, or replace the one that exists. The flags of the caller are those that
the rule counts by: --user for a rule by user, none for a rule that counts all callers together.`,
		Example: `  fluxgate override set --rule per-user --user acme --times 10 --for 1h --reason "launch day"
  fluxgate override set --rule per-user --user acme --times 0.5 --until 2027-01-31T00:00:00Z
  fluxgate override set --rule per-user --user acme --bands '[{"label": "hourly", "capacity": 500, "refill": "1h"}]' --dry-run`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.read(time.Now())
			if err != nil {
				return err
			}
			return f.run(cmd, func(ctx context.Context, operator admin.Operator) error { return f.set(ctx, cmd, operator, o) })
		},
	}
	f.flags(cmd)
	f.caller.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.times, "times", "", "multiply the capacities and refills of the rule, such as 10 or 0.5")
	flags.StringVar(&f.bands, "bands", "", "instead of --times: the limits of the rule with other numbers, as JSON")
	flags.DurationVar(&f.duration, "for", 0, "how long, such as 1h (default: for good)")
	flags.StringVar(&f.until, "until", "", "instead of --for: the end, such as 2027-01-31T00:00:00Z")
	flags.StringVarP(&f.reason, "reason", "m", "", "the reason")
	return cmd
}

// read is the override of the flags, without its rule set.
func (f *setFlags) read(now time.Time) (o rules.Override, err error) {
	if o, err = f.caller.read(); err != nil {
		return o, err
	}
	o.Reason, o.Author = f.reason, f.target.signature()
	switch {
	case (f.times == "") == (f.bands == ""):
		return o, usage("use either --times or --bands")
	case f.duration < 0 || f.duration > 0 && f.until != "":
		return o, usage("use either --for, above 0, or --until")
	case f.duration > 0:
		o.Until = now.Add(f.duration).UTC().Truncate(time.Second)
	case f.until != "":
		if o.Until, err = time.Parse(time.RFC3339, f.until); err != nil {
			return o, usage("--until: must be a moment such as 2027-01-31T00:00:00Z, not %q", f.until)
		}
	}
	if f.times != "" {
		o.Times, err = rules.ParseTimes(f.times)
	} else if o.Bands, err = rules.ParseBands(f.bands); err != nil {
		err = fmt.Errorf("--bands: %w", err)
	}
	if err == nil && !o.Until.IsZero() && !o.Until.After(now) {
		err = fmt.Errorf("the end %s has passed", o.Until.Format(time.RFC3339))
	}
	if err != nil {
		return o, &usageError{err}
	}
	return o, nil
}

func (f *setFlags) set(ctx context.Context, cmd *cobra.Command, operator admin.Operator, o rules.Override) error {
	now, err := operator.Load(ctx, f.ruleSet)
	if err != nil {
		return err
	}
	rule, ok := now.RuleSet.Rule(o.RuleID)
	if !ok {
		return fmt.Errorf("rule %q of rule set %q: %w", o.RuleID, f.ruleSet, fluxgate.ErrNoRule)
	}
	o.RuleSetID = f.ruleSet
	done, err := putOverrides(ctx, operator, f.ruleSet, []rules.Override{o}, f.dryRun)
	if err != nil {
		return err
	}
	writeOverride(cmd.OutOrStdout(), &rule, &o)
	f.report(cmd, "set", done.IDs[0])
	return nil
}

// writeOverride shows the numbers of a rule and those of an override.
func writeOverride(out io.Writer, rule *rules.Rule, o *rules.Override) {
	end := "for good"
	if !o.Until.IsZero() {
		end = "until " + moment(&o.Until)
	}
	printf(out, "%s, %s, %s\n", rule.ID, callerText(o.Identity), end)
	bands, _ := rule.Overridden(o.Times, o.Bands) // which was checked
	for i := range bands {
		was, is := &rule.Bands[i], &bands[i]
		printf(out, "  %s: %s → %s\n", was.Name(), bandNumbers(was), bandNumbers(is))
	}
}

// bandNumbers are the numbers of a band that overrides change.
func bandNumbers(b *rules.Band) string {
	if b.Tokens() == b.Capacity {
		return fmt.Sprint(b.Capacity)
	}
	return fmt.Sprintf("%d, refill %d", b.Capacity, b.Tokens())
}
