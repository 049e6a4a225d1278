package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newBucket() *cobra.Command {
	return group(&cobra.Command{
		Use: "bucket", Short: "Look at what callers have left, and make buckets full",
		Long: "Look at what callers have left, and make buckets full. A caller is named by a request, or by the key of a bucket that\npeek and explain show.",
		Example: `  fluxgate bucket peek --user ada --path /api/orders
  fluxgate bucket reset --rule-set api-limits --rule per-user --user ada`,
	}, newBucketPeek(), newBucketReset())
}

func newBucketPeek() *cobra.Command {
	var from where
	var as output
	var what requestFlags
	var only []string
	cmd := &cobra.Command{
		Use: "peek", Short: "Say what the caller of a request has left", Args: noArgs,
		Long: `Say what the caller of a request has left under the rules that apply to it, or under the named rules whether they
apply or not. Nothing is taken.`,
		Example: `  fluxgate bucket peek --rule-set api-limits --user ada --path /api/orders
  fluxgate bucket peek --rule-set api-limits --rule per-user --user ada --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := what.read()
			if err != nil {
				return err
			}
			return from.work(cmd, needBuckets, func(ctx context.Context, operator admin.Operator) error {
				if req.RuleSet == "" {
					if req.RuleSet, err = defaultRuleSet(ctx, operator); err != nil {
						return err
					}
				}
				found, err := operator.Buckets(ctx, req, only...)
				if err != nil {
					return err
				}
				if found == nil {
					found = []admin.Bucket{}
				}
				return as.write(cmd.OutOrStdout(), found, func(out io.Writer) error { return printBuckets(out, found) })
			})
		},
	}
	from.flags(cmd)
	as.flag(cmd, asTable, asJSON, asYAML)
	cmd.Flags().StringVar(&what.request.RuleSet, "rule-set", "", ruleSetHelp)
	cmd.Flags().StringArrayVar(&only, "rule", nil, "a rule; can be given several times (default: all that apply)")
	what.add(cmd)
	return cmd
}

func printBuckets(out io.Writer, found []admin.Bucket) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "no bucket: no rule that applies counts this request, see fluxgate explain")
		return err
	}
	owes := slices.ContainsFunc(found, func(b admin.Bucket) bool { return owed(b.Bands) })
	t := newTable(out, slices.Concat([]string{"RULE", "BAND"}, leftColumns(owes), []string{"BUCKET"})...)
	for i := range found {
		b := &found[i]
		if len(b.Bands) == 0 {
			t.row(slices.Concat([]any{b.Rule, none, "unknown"}, slices.Repeat([]any{none}, len(leftColumns(owes))-1), []any{b.Key})...)
		}
		for j := range b.Bands {
			band := &b.Bands[j]
			t.row(slices.Concat([]any{b.Rule, bandName(band)}, leftCells(band, owes), []any{b.Key})...)
		}
	}
	return t.flush()
}

// resetFlags say which buckets are made full.
type resetFlags struct {
	where   where
	confirm confirmation
	what    requestFlags

	rule, key string
}

func newBucketReset() *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use: "reset --rule-set ID", Short: "Make buckets full", Args: noArgs,
		Long: `Make buckets full: one caller's under a rule, who is named by a request or by the key of the bucket; all of a rule; or
all of a rule set. Before all of a rule or of a rule set are, you are asked. A request must have all that the rule
counts by, such as a user.`,
		Example: `  fluxgate bucket reset --rule-set api-limits --rule per-user --user ada
  fluxgate bucket reset --rule-set api-limits --rule per-user --key 5f0c9a1b7d2e4f60a1b2c3d4e5f607188c0d96e2f1a43b75
  fluxgate bucket reset --rule-set api-limits --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			what, err := f.read(cmd)
			if err != nil {
				return err
			}
			return f.where.work(cmd, needBuckets, func(ctx context.Context, operator admin.Operator) error {
				return f.reset(ctx, cmd, operator, what)
			})
		},
	}
	f.where.flags(cmd)
	f.confirm.flag(cmd)
	cmd.Flags().StringVar(&f.what.request.RuleSet, "rule-set", "", "the rule set")
	cmd.Flags().StringVar(&f.rule, "rule", "", "the rule (default: all rules)")
	cmd.Flags().StringVar(&f.key, "key", "", "the bucket of one caller, as peek and explain show it")
	f.what.add(cmd)
	return cmd
}

var bucketKey = regexp.MustCompile(fmt.Sprintf(`^[0-9a-f]{%d}$`, fluxgate.ShownKeyLength))

// read refuses what names too little or too much.
func (f *resetFlags) read(cmd *cobra.Command) (admin.Reset, error) {
	empty := ""
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Value.String() == "" {
			empty = flag.Name
		}
	})
	if empty != "" {
		return admin.Reset{}, usage("--%s is empty: is a variable not set?", empty)
	}
	if f.what.request.RuleSet == "" {
		return admin.Reset{}, usage("say which rule set: --rule-set ID")
	}
	req, err := f.what.read()
	if err != nil {
		return admin.Reset{}, err
	}
	what := admin.Reset{RuleSet: req.RuleSet, Rule: f.rule, Key: f.key}
	switch one := f.what.given(); {
	case f.rule != "" && !fluxgate.ValidID(f.rule):
		return what, usage("--rule: %q is not the id of a rule", f.rule)
	case one && f.key != "":
		return what, usage("a caller is named by --key or by a request (--user, --ip and so on), not by both")
	case f.rule == "" && (one || f.key != ""):
		return what, usage("say with --rule whose bucket it is: a caller has one under every rule, see fluxgate bucket peek")
	case f.key != "" && !bucketKey.MatchString(f.key):
		return what, usage("--key: a key has %d hexadecimal digits, as fluxgate bucket peek shows it", fluxgate.ShownKeyLength)
	case one:
		asked := wire.FromRequest(req)
		asked.RuleSet = ""
		what.Request = &asked
	}
	return what, nil
}

func (f *resetFlags) reset(ctx context.Context, cmd *cobra.Command, operator admin.Operator, what admin.Reset) error {
	done, err := f.prepare(ctx, cmd, operator, &what)
	if err != nil {
		return err
	}
	if err := operator.Reset(ctx, what); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
	return err
}

// prepare finds out whose bucket it is, or asks whether all are meant, and
// returns what to say when it is done.
func (f *resetFlags) prepare(ctx context.Context, cmd *cobra.Command, operator admin.Operator, what *admin.Reset) (done string, err error) {
	if what.Key != "" || what.Request != nil {
		key := what.Key
		if what.Request != nil {
			if key, err = f.keyOf(ctx, operator); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("the bucket %s of rule %s in %s is full", key, f.rule, what.RuleSet), nil
	}
	whose := what.RuleSet
	if f.rule != "" {
		whose = fmt.Sprintf("rule %s in %s", f.rule, what.RuleSet)
	}
	if err := hasRule(ctx, operator, what.RuleSet, f.rule); err != nil {
		return "", err
	}
	if err := f.confirm.ask(cmd, fmt.Sprintf("Make all buckets of %s full, for all callers, %s?", whose, f.where.place)); err != nil {
		return "", err
	}
	what.All = true
	return fmt.Sprintf("all buckets of %s are full; other servers see it within seconds", whose), nil
}

// keyOf is the bucket that the request counts in under the rule.
func (f *resetFlags) keyOf(ctx context.Context, operator admin.Operator) (string, error) {
	req, err := f.what.read()
	if err != nil {
		return "", err
	}
	found, err := operator.Buckets(ctx, req, f.rule)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("rule %q has %s for one caller, which cannot be", f.rule, count(len(found), "bucket"))
	}
	if err != nil {
		return "", err
	}
	return found[0].Key, nil
}

// hasRule refuses a rule set that does not exist, and a rule that it does not
// have unless none is asked for.
func hasRule(ctx context.Context, operator admin.Operator, id, rule string) error {
	version, err := operator.Load(ctx, id)
	if err != nil || rule == "" {
		return err
	}
	for r := range version.RuleSet.Rules() {
		if r.ID == rule {
			return nil
		}
	}
	return fmt.Errorf("rule %q of rule set %q: %w", rule, id, fluxgate.ErrNoRule)
}
