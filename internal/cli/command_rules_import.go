package cli

import "github.com/spf13/cobra"

func newRulesImport() *cobra.Command {
	files := fileFlags{}
	cmd := &cobra.Command{
		Use: "import --from FORMAT -f FILE", Short: "Convert the configuration of another rate limiter to rules",
		Long: `Convert the configuration of another rate limiter to rules. They are written to standard output as YAML, one rule set
for each domain. Settings that have no counterpart or count differently are listed on standard error, with file and
line. If a file cannot be converted, its errors are written like those of rules validate, no rules are written, and the
exit code is 1. Files can also be arguments, without -f. No server is contacted.`,
		Example: "  fluxgate rules import --from envoy-ratelimit -f config/ > rules.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if files.format.format == "" {
				return usage("name the format: --from %s", envoyFormat)
			}
			files.names = append(files.names, args...)
			sets, err := files.readOrReport(cmd)
			if err != nil {
				return err
			}
			for i, set := range sets {
				doc, err := newRuleSetDocument(set)
				if err != nil {
					return err
				}
				text, err := yamlText(doc)
				if err != nil {
					return err
				}
				if i > 0 {
					text = "---\n" + text
				}
				printf(cmd.OutOrStdout(), "%s", text)
			}
			return nil
		},
	}
	files.flag(cmd)
	files.formatFlag(cmd)
	return cmd
}
