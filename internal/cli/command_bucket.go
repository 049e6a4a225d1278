package cli

import "github.com/spf13/cobra"

func newBucket() *cobra.Command {
	return group(&cobra.Command{
		Use: "bucket", Short: "Show and reset the buckets of callers",
		Long: `Show the remaining tokens of callers, and reset buckets to full. A caller is identified by a request, or by the key
of a bucket that peek and explain show.`,
		Example: `  fluxgate bucket peek --user ada --path /api/orders
  fluxgate bucket reset --rule-set api-limits --rule per-user --user ada`,
	}, newBucketPeek(), newBucketReset())
}
