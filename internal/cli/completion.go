package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// complete has the shell complete ids of rule sets and keys of the
// configuration in a command.
func complete(cmd *cobra.Command) {
	if strings.Contains(cmd.Use, " ID") {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeRuleSets(cmd, args, typed)
		}
	}
	for flag, by := range map[string]cobra.CompletionFunc{"rule-set": completeRuleSets, "set": completeSettings} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, by) // fails for a flag that is not there
		}
	}
}

// completeRuleSets asks where the command would work. Where nobody answers soon
// there is nothing to complete.
func completeRuleSets(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	var from where
	scratch := new(cobra.Command)
	from.flags(scratch)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "server" && cmd.Flags().Lookup("direct") == nil {
			return // the http listener, which lists no rules
		}
		if same := scratch.Flags().Lookup(f.Name); same == nil {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, value := range list.GetSlice() {
				_ = scratch.Flags().Set(f.Name, value)
			}
			return
		}
		_ = scratch.Flags().Set(f.Name, f.Value.String())
	})
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	scratch.SetContext(ctx)
	var ids []string
	err := from.work(scratch, needRules, func(ctx context.Context, operator admin.Operator) error {
		page, err := operator.List(ctx, "", rules.MaxPage)
		for i := range page {
			if strings.HasPrefix(page[i].RuleSetID, typed) {
				ids = append(ids, page[i].RuleSetID)
			}
		}
		return err
	})
	if err != nil {
		return nil, none
	}
	return ids, none
}

// completeSettings completes KEY= and, where there are only some, the values.
func completeSettings(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var found []string
	key, _, valued := strings.Cut(typed, "=")
	for _, k := range config.Keys() {
		switch {
		case !valued:
			found = append(found, k.Name+"=")
		case k.Name == key:
			for _, value := range k.Values {
				found = append(found, key+"="+value)
			}
		}
	}
	found = slices.DeleteFunc(found, func(s string) bool { return !strings.HasPrefix(s, typed) })
	if valued && len(found) == 0 {
		return nil, cobra.ShellCompDirectiveDefault // it may be a file
	}
	if valued {
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
