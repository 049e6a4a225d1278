package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

// sources are the flags that say where the configuration is.
type sources struct {
	file string
	set  []string
}

func (s *sources) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.file, "config", "c", "", "configuration file (default: what FLUXGATE_CONFIG names, or none)")
	cmd.Flags().StringArrayVar(&s.set, "set", nil, "one setting, such as redis.uri=redis://localhost:6379; overrides the environment and the file")
}

// load reads the configuration: file, then environment, then flags.
func (s *sources) load() (*config.Config, error) {
	environ := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(clientVariables, name)
	})
	return config.Load(config.Sources{File: s.file, Environ: environ, Set: s.set})
}

func newConfig() *cobra.Command {
	return group(&cobra.Command{Use: "config", Short: "Check or print the configuration"}, newConfigCheck(), newConfigPrint())
}

func newConfigCheck() *cobra.Command {
	var from sources
	cmd := &cobra.Command{
		Use: "check", Short: "Say what is wrong with the configuration, and where", Args: noArgs,
		Long:    "Say what is wrong with the configuration, and where. Files that it names must be there; nothing is connected to.",
		Example: "  fluxgate config check --config fluxgate.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err == nil {
				err = errors.Join(c.Check(), c.CheckRulesFile())
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the configuration is good")
			return err
		},
	}
	from.flags(cmd)
	return cmd
}

func newConfigPrint() *cobra.Command {
	var from sources
	var as output
	cmd := &cobra.Command{
		Use: "print", Short: "Print the effective configuration, without secrets", Args: noArgs,
		Long: "Print what a server would run with: the file, the environment and the flags over the defaults. Secrets are hidden.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			return c.Print(cmd.OutOrStdout(), config.Format(as.format))
		},
	}
	from.flags(cmd)
	as.flag(cmd, asYAML, asJSON)
	return cmd
}
