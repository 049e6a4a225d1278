package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/backend"
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
		Long: `Report every error in the configuration, with its position. Files that it names must exist, and rules.file or
rules.envoy-files must have valid rules. No connection is opened.`,
		Example: "  fluxgate config check --config fluxgate.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := source.load()
			if err == nil {
				err = c.Check()
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

// checkRules reports what is wrong with rules in files.
func checkRules(ctx context.Context, c *config.Config) error {
	if c.RuleFiles() == "" {
		return nil
	}
	source, err := backend.OpenRules(ctx, c, nil, slog.New(slog.DiscardHandler))
	if err == nil {
		_, err = source.Load(ctx, c.RateLimit.DefaultRuleSetID) // parses all files
	}
	if errors.Is(err, rules.ErrNotFound) {
		return nil
	}
	return err
}

func newConfigPrint() *cobra.Command {
	var source configFlags
	cmd := &cobra.Command{
		Use: "print", Short: "Print the effective configuration, without secrets", Args: noArgs,
		Long: "Print the configuration of a server: the file, the environment and the flags over the defaults. Secrets are hidden.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := source.load()
			if err == nil {
				printf(cmd.OutOrStdout(), "%v", c)
			}
			return err
		},
	}
	source.flags(cmd)
	return cmd
}
