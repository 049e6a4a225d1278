package cli

import "github.com/spf13/cobra"

func newRulesValidate() *cobra.Command {
	var files fileFlags
	cmd := &cobra.Command{
		Use: "validate -f FILE", Short: "Report errors in rule files, with their positions", Args: noArgs,
		Long: `Report errors in rule files, with file, line and column. No server is contacted, and nothing is saved.
In a folder, all files that end in .yaml, .yml or .json are read. Each error begins a line in the format of compilers,
file:line:column: message. The exit code is 1 if there is an error.`,
		Example: `  fluxgate rules validate -f rules/
  fluxgate rules validate -f api-limits.yaml -f payments.yaml
  fluxgate rules get api-limits | fluxgate rules validate -f -
  fluxgate rules validate --from envoy-ratelimit -f ratelimit.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sets, err := files.readOrReport(cmd)
			if err != nil {
				return err
			}
			n := 0
			for _, set := range sets {
				n += set.Len()
			}
			printf(cmd.OutOrStdout(), "%s, %s: valid\n", count(len(sets), "rule set"), count(n, "rule"))
			return nil
		},
	}
	files.flag(cmd)
	files.formatFlag(cmd)
	return cmd
}
