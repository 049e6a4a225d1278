package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

// configFlags name the configuration.
type configFlags struct {
	file string
	set  []string
}

func (f *configFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "configuration file (default: the one that FLUXGATE_CONFIG names, or none)")
	cmd.Flags().StringArrayVar(&f.set, "set", nil,
		"one setting, such as redis.uri=redis://localhost:6379; overrides the environment and the file")
}

// load reads the configuration: file, then environment, then flags.
func (f *configFlags) load() (*config.Config, error) {
	environ := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(clientVariables, name)
	})
	return config.Load(config.Sources{File: f.file, Environ: environ, Set: f.set})
}
