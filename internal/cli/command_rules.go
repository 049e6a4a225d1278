package cli

import "github.com/spf13/cobra"

func newRules() *cobra.Command {
	return group(&cobra.Command{
		Use: "rules", Short: "List, compare, change and import rules",
		Long: `List, compare and change rules, and show their history.

With a server (--server, or FLUXGATE_ADMIN) roles are checked and changes are audited; with --direct the commands work
on the source that --config and --set name, as before the first server runs. Rules in files are read-only here: edit the files.`,
		Example: `  fluxgate rules validate -f rules/
  fluxgate rules diff -f rules/
  fluxgate rules apply -f rules/ --comment "more for premium"
  fluxgate rules history api-limits`,
	}, newRulesList(), newRulesGet(), newRulesValidate(), newRulesDiff(), newRulesApply(),
		newRulesHistory(), newRulesRestore(), newRulesDelete(), newRulesImport())
}

// oneRuleSet is for commands that take the id of a rule set.
func oneRuleSet(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s takes one rule set id, got %s", cmd.CommandPath(), count(len(args), "argument"))
	}
	return checkRuleSet(args[0])
}
