package main

import (
	"context"
	"fmt"
	"io"
	"regexp"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/spf13/cobra"
)

func newBucket() *cobra.Command {
	return group(&cobra.Command{
		Use: "bucket", Short: "Look at what callers have left, and make buckets full",
		Long: "Look at what callers have left, and make buckets full. A caller is named by a request, or by the key of a bucket that\npeek and explain show.",
		Example: `  fluxgate bucket peek --rule-set api-limits --user ada
  fluxgate bucket reset --rule-set api-limits --rule per-user --user ada`,
	}, newBucketPeek(), newBucketReset())
}

func newBucketPeek() *cobra.Command {
	var from where
	var as output
	var what requestFlags
	var only []string
	cmd := &cobra.Command{
		Use: "peek --rule-set ID", Short: "Say what the caller of a request has left", Args: noArgs,
		Long: `Say what the caller of a request has left under the rules that apply to it, or under the named rules whether they
apply or not. Nothing is taken.`,
		Example: `  fluxgate bucket peek --rule-set api-limits --user ada --path /api/orders
  fluxgate bucket peek --rule-set api-limits --rule per-user --user ada --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := readOf(&what)
			if err != nil {
				return err
			}
			return from.work(cmd, needBuckets, func(ctx context.Context, operator admin.Operator) error {
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
	cmd.Flags().StringVar(&what.request.RuleSet, "rule-set", "", "the rule set")
	cmd.Flags().StringArrayVar(&only, "rule", nil, "a rule; can be given several times (default: all that apply)")
	what.add(cmd)
	return cmd
}

// readOf is the request of commands that must be told the rule set.
func readOf(what *requestFlags) (*fluxgate.Request, error) {
	if what.request.RuleSet == "" {
		return nil, usage("say which rule set: --rule-set ID")
	}
	if err := checkRuleSet(what.request.RuleSet); err != nil {
		return nil, err
	}
	return what.read()
}

func printBuckets(out io.Writer, found []admin.Bucket) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "no bucket: no rule that applies counts this request, see fluxgate explain")
		return err
	}
	t := newTable(out, "RULE", "BAND", "LEFT", "OF", "FULL IN", "BUCKET")
	for i := range found {
		b := &found[i]
		if len(b.Bands) == 0 {
			t.row(b.Rule, none, "unknown", none, none, b.Key)
		}
		for j := range b.Bands {
			band := &b.Bands[j]
			t.row(b.Rule, bandName(band), band.Remaining, band.Limit, ceilSecond(span(band.FullAfterMs)), b.Key)
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
all of a rule set. Before all of a rule or of a rule set are, you are asked.`,
		Example: `  fluxgate bucket reset --rule-set api-limits --rule per-user --user ada
  fluxgate bucket reset --rule-set api-limits --rule per-user --key 5f0c9a1b7d2e4f60a1b2c3d4e5f60718
  fluxgate bucket reset --rule-set api-limits --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			what, err := f.read()
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

var bucketKey = regexp.MustCompile(`^[0-9a-f]{32}$`)

// read refuses what names too little or too much.
func (f *resetFlags) read() (admin.Reset, error) {
	req, err := readOf(&f.what)
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
		return what, usage("--key: a key has 32 hexadecimal digits, as fluxgate bucket peek shows it")
	case one:
		asked := wire.FromRequest(req)
		asked.RuleSet = ""
		what.Request = &asked
	}
	return what, nil
}

func (f *resetFlags) reset(ctx context.Context, cmd *cobra.Command, operator admin.Operator, what admin.Reset) error {
	const later = "; other servers see it within seconds"
	var done, question string
	switch {
	case what.Request != nil:
		done = fmt.Sprintf("the caller's bucket under %s in %s is full", what.Rule, what.RuleSet)
	case what.Key != "":
		done = fmt.Sprintf("bucket %s under %s in %s is full", what.Key, what.Rule, what.RuleSet)
	case what.Rule != "":
		question = fmt.Sprintf("Make the buckets of all callers under %s in %s full?", what.Rule, what.RuleSet)
		done = fmt.Sprintf("all buckets under %s in %s are full"+later, what.Rule, what.RuleSet)
	default:
		question = fmt.Sprintf("Make the buckets of all callers under all rules of %s full?", what.RuleSet)
		done = fmt.Sprintf("all buckets of %s are full"+later, what.RuleSet)
	}
	if question != "" {
		if err := f.confirm.ask(cmd, question); err != nil {
			return err
		}
	}
	if err := operator.Reset(ctx, what); err != nil {
		return err
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), done)
	return err
}
