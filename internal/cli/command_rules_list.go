package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRulesList() *cobra.Command {
	var from target
	cmd := &cobra.Command{
		Use: "list", Short: "List the rule sets", Args: noArgs,
		Long:    "List the rule sets with the author, time and comment of their last revision.",
		Example: "  fluxgate rules list\n  fluxgate rules list --direct --config fluxgate.yaml --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.run(cmd, func(ctx context.Context, operator admin.Operator) error {
				found, err := listRuleSets(ctx, operator)
				return from.show(cmd, found, err, func(out io.Writer) {
					if writeEntries(out, found, ""); len(found) == 0 {
						printf(out, "there are no rule sets: create one with fluxgate rules apply -f FILE\n")
					}
				})
			})
		},
	}
	from.flags(cmd, asTable, asJSON, asYAML)
	from.directFlags(cmd)
	return cmd
}

// listRuleSets reads all pages. A page may be short if the caller does not see
// every rule set; only the last one is empty.
func listRuleSets(ctx context.Context, operator admin.Operator) ([]rules.Entry, error) {
	all := []rules.Entry{}
	for last := ""; ; last = all[len(all)-1].RuleSetID {
		page, err := operator.List(ctx, last, rules.MaxPage)
		switch {
		case err != nil || len(page) == 0:
			return all, err
		case page[len(page)-1].RuleSetID <= last:
			return nil, fmt.Errorf("listing rule sets: the page after %q begins before it", last)
		}
		all = append(all, page...)
	}
}

// writeEntries has a row for each revision. The rule set is left out if all are of
// the given one.
func writeEntries(out io.Writer, entries []rules.Entry, ruleSet string) {
	t := table{columns: []string{"RULE SET", "REVISION", "CHANGED", "BY", "WHY"}, optional: map[string]string{"RULE SET": ruleSet}}
	for _, e := range entries {
		if e.Deleted {
			e.Comment = strings.TrimSuffix("deleted: "+e.Comment, ": ")
		}
		t.add(e.RuleSetID, rules.ShownRevision(e.Revision), moment(&e.At), e.Author, e.Comment)
	}
	t.write(out)
}
