package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// setFlags are the override of one caller.
type setFlags struct {
	callerFlags
	times, bands, until string
	reason              string
	duration            time.Duration
}

func newOverrideSet() *cobra.Command {
	change := overrideFlags{confirm: confirmFlag{yes: true}}
	var f setFlags
	cmd := &cobra.Command{
		Use: "set --rule ID", Short: "Write the override of one caller", Args: noArgs,
		Long: `Write the override of one caller under a rule, or replace the one that exists. --caller has the parts that
the rule counts by: userId for a rule by user, none for a rule that counts all callers together.`,
		Example: `  fluxgate override set --rule per-user --caller userId=acme --times 10 --for 1h --reason "launch day"
  fluxgate override set --rule per-user --caller userId=acme --times 0.5 --until 2027-01-31T00:00:00Z
  fluxgate override set --rule per-user --caller userId=acme --bands '[{"label": "hourly", "capacity": 500, "refill": "1h"}]' --dry-run`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.read(time.Now())
			if err != nil {
				return err
			}
			return change.change(cmd, "written", func(context.Context, admin.Operator) ([]rules.Override, error) {
				o.RuleSetID = change.ruleSet
				return []rules.Override{o}, nil
			})
		},
	}
	change.flags(cmd)
	f.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.times, "times", "", "multiply the capacities and refills of the rule, such as 10 or 0.5")
	flags.StringVar(&f.bands, "bands", "",
		"instead of --times: the limits of the rule with other numbers, as JSON; money such as \"500 USD\"")
	flags.DurationVar(&f.duration, "for", 0, "how long, such as 1h (default: for good)")
	flags.StringVar(&f.until, "until", "", "instead of --for: the end, such as 2027-01-31T00:00:00Z")
	flags.StringVarP(&f.reason, "reason", "m", "", "the reason")
	return cmd
}

// read is the override of the flags, without its rule set.
func (f *setFlags) read(now time.Time) (o rules.Override, err error) {
	if err := f.check(); err != nil {
		return o, err
	}
	o = rules.Override{RuleID: f.rule, Identity: f.caller, Reason: f.reason}
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
		if o.Times, err = rules.ParseTimes(f.times); err != nil {
			err = fmt.Errorf("--times: %w", err)
		}
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

func newOverrideDelete() *cobra.Command {
	f := overrideFlags{confirm: confirmFlag{yes: true}}
	var caller callerFlags
	cmd := &cobra.Command{
		Use: "delete --rule ID", Short: "Delete the override of one caller", Args: noArgs,
		Long:    "Delete the override of one caller under a rule. The numbers of the rule apply again.",
		Example: "  fluxgate override delete --rule per-user --caller userId=acme",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := caller.check(); err != nil {
				return err
			}
			return f.change(cmd, "deleted", func(ctx context.Context, operator admin.Operator) ([]rules.Override, error) {
				o := rules.Override{RuleSetID: f.ruleSet, RuleID: caller.rule, Identity: caller.caller, Deleted: true}
				checked, err := operator.PutOverrides(ctx, f.ruleSet, []rules.Override{o}, true)
				if err != nil {
					return nil, err
				}
				now, err := operator.Override(ctx, f.ruleSet, checked.IDs[0])
				if errors.Is(err, rules.ErrNotFound) {
					err = fmt.Errorf("rule %s has no override of %s: see fluxgate override list", o.RuleID, callerText(o.Identity))
				}
				o.Revision = now.Revision
				return []rules.Override{o}, err
			})
		},
	}
	f.flags(cmd)
	caller.flags(cmd)
	return cmd
}
