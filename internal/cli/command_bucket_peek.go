package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

func newBucketPeek() *cobra.Command {
	var from target
	var request requestFlags
	var only []string
	cmd := &cobra.Command{
		Use: "peek", Short: "Show the remaining tokens of the caller of a request", Args: noArgs,
		Long: `Show the remaining tokens of the caller of a request under the rules that apply, or under the rules of --rule whether
they apply or not. Nothing is taken.`,
		Example: `  fluxgate bucket peek --rule-set api-limits --user ada --path /api/orders
  fluxgate bucket peek --rule-set api-limits --rule per-user --user ada --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			peek := func(ctx context.Context, operator admin.Operator, req *fluxgate.Request) error {
				found, err := operator.Buckets(ctx, req, only...)
				found = append([]admin.Bucket{}, found...) // [] in JSON, not null
				return from.show(cmd, found, err, func(out io.Writer) { writeBuckets(out, found) })
			}
			return from.runRequest(cmd, needBuckets, &request, peek)
		},
	}
	from.flags(cmd, asTable, asJSON, asYAML)
	cmd.Flags().StringArrayVar(&only, "rule", nil, "a rule; can be given several times (default: all rules that apply)")
	request.flags(cmd, ruleSetHelp)
	return cmd
}

func writeBuckets(out io.Writer, found []admin.Bucket) {
	if len(found) == 0 {
		printf(out, "no bucket: no rule that applies counts this request; see fluxgate explain\n")
	}
	t := newBandTable()
	for i := range found {
		b := &found[i]
		if len(b.Bands) == 0 {
			t.add(b.Rule, none, rules.MeasureRequests, 1, unknown, 0, none, none, rules.ModeEnforce, b.Key)
		}
		for j := range b.Bands {
			b.Bands[j].Shadow = false // a bucket has no mode, its rule has
			t.addBand(&b.Bands[j], b.Key)
		}
	}
	t.write(out)
}
