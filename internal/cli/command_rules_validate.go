package cli

import "github.com/spf13/cobra"

func newRulesValidate() *cobra.Command {
	var files fileFlags
	cmd := &cobra.Command{
		Use: "validate -f FILE", Short: "Report errors in rule files, with their positions", Args: noArgs,
		Long: `Report errors in rule files, with file, line and column. No server is contacted, and nothing is saved.
In a folder, all files that end in .yaml, .yml or .json are read. Each error begins a line in the format of compilers,
file:line:column: message. The exit code is 1 if there is an error.

Valid rules are also read as a whole. Warnings name what cannot work as it is written, such as a rule that no request
reaches. They begin with file:line:column: warning: and do not change the exit code, except with --strict.`,
		Example: `  fluxgate rules validate -f rules/
  fluxgate rules validate -f api-limits.yaml -f payments.yaml
  fluxgate rules get api-limits | fluxgate rules validate -f -
  fluxgate rules validate -f rules/ --strict
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
			result := "valid"
			if len(files.warnings) > 0 {
				result += ", with warnings"
			}
			printf(cmd.OutOrStdout(), "%s, %s: %s\n", count(len(sets), "rule set"), count(n, "rule"), result)
			return files.showWarnings(cmd)
		},
	}
	files.flag(cmd)
	files.formatFlag(cmd)
	files.warningFlag(cmd)
	return cmd
}
