package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRules() *cobra.Command {
	return group(&cobra.Command{
		Use: "rules", Short: "List, compare and change rules",
		Long: `List, compare and change rules, and look at their history.

With a server (--server, or FLUXGATE_ADMIN) roles and an audit stand between; with --direct the commands work
straight on the source that --config and --set name. Rules that are in files can be read, and are changed there.`,
		Example: `  fluxgate rules validate -f rules/
  fluxgate rules diff -f rules/
  fluxgate rules apply -f rules/ --comment "more for premium"
  fluxgate rules history api-limits`,
	}, newRulesList(), newRulesGet(), newRulesValidate(), newRulesDiff(), newRulesApply(), newRulesHistory(), newRulesRestore(), newRulesDelete())
}

// oneRuleSet is for commands that take the id of a rule set.
func oneRuleSet(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s takes the id of one rule set, and got %s", cmd.CommandPath(), count(len(args), "argument"))
	}
	return checkRuleSet(args[0])
}

// parseRevision reads a revision.
func parseRevision(text string) (int64, error) {
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 1 {
		return 0, usage("%q is not a revision: it is a number from 1 on, see fluxgate rules history", text)
	}
	return revision, nil
}

func newRulesList() *cobra.Command {
	var from where
	var as output
	cmd := &cobra.Command{
		Use: "list", Short: "List the rule sets", Args: noArgs,
		Long:    "List the rule sets that there are, with their revision and who made it, when and why.",
		Example: "  fluxgate rules list\n  fluxgate rules list --direct --config fluxgate.yaml --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				return listRuleSets(ctx, operator, as.list(cmd.OutOrStdout(), "RULE SET", "REVISION", "CHANGED", "BY", "WHY"))
			})
		},
	}
	from.flags(cmd)
	as.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

// listRuleSets pages through all of them. A page may be short, where a caller
// does not see everything, but only the last is empty.
func listRuleSets(ctx context.Context, operator admin.Operator, to *listing) error {
	for last := ""; ; {
		page, err := operator.List(ctx, last, rules.MaxPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return to.end("there are no rule sets: make one with fluxgate rules apply -f FILE")
		}
		for i := range page {
			e := &page[i]
			if err := to.add(admin.EntryOf(e), e.RuleSetID, e.Revision, moment(e.At), e.Author, e.Comment); err != nil {
				return err
			}
		}
		if err := to.flush(); err != nil {
			return err
		}
		if next := page[len(page)-1].RuleSetID; next > last {
			last = next
		} else {
			return fmt.Errorf("listing rule sets: %q comes after %q, which cannot be", next, last)
		}
	}
}

func newRulesHistory() *cobra.Command {
	var from where
	var as output
	var limit int
	cmd := &cobra.Command{
		Use: "history ID", Short: "Show who changed a rule set, when and why", Args: oneRuleSet,
		Long:    "Show the revisions of a rule set, the newest first. Rules that are in files have no history but what stands there now.",
		Example: "  fluxgate rules history api-limits\n  fluxgate rules history api-limits --limit 0 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usage("--limit: %d is not a number of revisions; 0 means all", limit)
			}
			return from.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				return listRevisions(ctx, operator, args[0], limit, as.list(cmd.OutOrStdout(), "REVISION", "CHANGED", "BY", "WHY"))
			})
		},
	}
	from.flags(cmd)
	as.flag(cmd, asTable, asJSON, asYAML)
	cmd.Flags().IntVar(&limit, "limit", 20, "how many revisions at most; 0 means all")
	return cmd
}

func listRevisions(ctx context.Context, operator admin.Operator, id string, limit int, to *listing) error {
	for before := int64(0); limit == 0 || to.length < limit; {
		page, err := operator.History(ctx, id, before, rules.PageSize(limit-to.length))
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			e := &page[i]
			why := e.Comment
			if e.Deleted {
				why = "deleted"
				if e.Comment != "" {
					why += ": " + e.Comment
				}
			}
			if err := to.add(admin.EntryOf(e), e.Revision, moment(e.At), e.Author, why); err != nil {
				return err
			}
		}
		if err := to.flush(); err != nil {
			return err
		}
		if next := page[len(page)-1].Revision; before == 0 || next < before {
			before = next
		} else {
			return fmt.Errorf("reading the history: revision %d comes before %d, which cannot be", next, before)
		}
		if before == 1 {
			break
		}
	}
	if to.length == 0 {
		return fmt.Errorf("rule set %q: %w", id, rules.ErrNotFound)
	}
	return to.end("")
}
