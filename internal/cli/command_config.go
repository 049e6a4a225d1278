package cli

import (
	"context"
	"errors"

	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

func newConfig() *cobra.Command {
	return group(&cobra.Command{Use: "config", Short: "Check or print the configuration"}, newConfigCheck(), newConfigPrint())
}

func newConfigCheck() *cobra.Command {
	var source configFlags
	cmd := &cobra.Command{
		Use: "check", Short: "Report every error in the configuration, with its position", Args: noArgs,
		Long: `Report every error in the configuration, with its position. Files that it names must exist, and rules.file must have
valid rules. No connection is opened.`,
		Example: "  fluxgate config check --config fluxgate.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := source.load()
			if err == nil {
				err = errors.Join(c.Check(), c.CheckRulesFile())
			}
			if err == nil {
				err = checkRules(cmd.Context(), c)
			}
			if err == nil {
				printf(cmd.OutOrStdout(), "the configuration is valid\n")
			}
			return err
		},
	}
	source.flags(cmd)
	return cmd
}

// checkRules reports what is wrong with the rules of rules.file, if they come from there.
func checkRules(ctx context.Context, c *config.Config) error {
	if c.RuleSource() != config.SourceFile {
		return nil
	}
	source, err := filerules.Open(c.Rules.File, filerules.Config{MaxFiles: c.Rules.MaxRuleSets})
	if err == nil {
		_, err = source.IDs(ctx) // parses all files
	}
	return err
}

func newConfigPrint() *cobra.Command {
	var source configFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use: "print", Short: "Print the effective configuration, without secrets", Args: noArgs,
		Long: "Print the configuration of a server: the file, the environment and the flags over the defaults. Secrets are hidden.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := source.load()
			if err != nil {
				return err
			}
			return c.Print(cmd.OutOrStdout(), output.format == asJSON)
		},
	}
	source.flags(cmd)
	output.flag(cmd, asYAML, asJSON)
	return cmd
}
