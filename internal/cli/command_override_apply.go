package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

func newOverrideApply() *cobra.Command {
	var f overrideFlags
	var file string
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Write the overrides of a CSV file", Args: noArgs,
		Long: `Check the overrides of a CSV file, ask for confirmation, and write them. The first line names the columns: rule, times
or bands (JSON, with money such as "500 USD"), until, reason, ruleSet, and a column for each part of a caller: ip,
userId, apiKey, header:NAME, attr:NAME and so on. All are checked before one is written. Overrides that are not in the
file stay unchanged.`,
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
