package cli

import (
	"strings"

	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

// completeSettings completes KEY= and, where a key has a fixed set of values,
// those too.
func completeSettings(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var found []string
	for _, key := range config.Keys() {
		for _, value := range append([]string{""}, key.Values...) {
			if setting := key.Name + "=" + value; strings.HasPrefix(setting, typed) && setting != typed {
				found = append(found, setting)
			}
		}
	}
	if len(found) == 0 && strings.Contains(typed, "=") {
		return nil, cobra.ShellCompDirectiveDefault // the value may be a file
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
