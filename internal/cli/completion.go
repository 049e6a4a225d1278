package cli

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

// completeRuleSets completes the ids of the target's rule sets. If they cannot be
// listed within two seconds there is nothing to complete.
func (t *target) completeRuleSets(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	cmd.SetContext(ctx)
	var ids []string
	if len(args) == 0 {
		_ = t.run(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
			page, err := operator.List(ctx, "", rules.MaxPage)
			for i := range page {
				if strings.HasPrefix(page[i].RuleSetID, typed) {
					ids = append(ids, page[i].RuleSetID)
				}
			}
			return err
		})
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// adminTarget is the default server, for completion in commands that do not use
// the admin API.
func adminTarget() *target {
	t := new(target)
	t.server = cmp.Or(os.Getenv(adminVariable), adminListener.address)
	return t
}

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
