package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/amount"
	"github.com/fluxgate/fluxgate/rules"
)

func newOverrideList() *cobra.Command {
	var from target
	var ruleSet string
	cmd := &cobra.Command{
		Use: "list", Short: "List the overrides of a rule set", Args: noArgs,
		Long:    "List the overrides of a rule set: those that end first are first, those without an end last.",
		Example: "  fluxgate override list\n  fluxgate override list --rule-set api-limits --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.runRuleSet(cmd, &ruleSet, func(ctx context.Context, operator admin.Operator) error {
				found, err := listOverrides(ctx, operator, ruleSet)
				return from.show(cmd, found, err, func(out io.Writer) {
					set := &rules.Set{} // without its rules numbers have no unit
					if version, err := operator.Load(ctx, ruleSet); err == nil {
						set = version.RuleSet
					}
					if writeOverrides(out, found, set); len(found) == 0 {
						printf(out, "%s has no overrides\n", ruleSet)
					}
				})
			})
		},
	}
	from.flags(cmd, asTable, asJSON, asYAML)
	cmd.Flags().StringVar(&ruleSet, "rule-set", "", ruleSetHelp)
	return cmd
}

// listOverrides reads all pages.
func listOverrides(ctx context.Context, operator admin.Operator, ruleSet string) ([]rules.OverrideDocument, error) {
	all := []rules.OverrideDocument{}
	for after := ""; ; {
		page, err := operator.ListOverrides(ctx, ruleSet, after, rules.MaxPage)
		if err != nil {
			return nil, err
		}
		for i := range page.Overrides {
			all = append(all, page.Overrides[i].Document())
		}
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

func writeOverrides(out io.Writer, overrides []rules.OverrideDocument, set *rules.Set) {
	t := table{columns: []string{"ENDS", "RULE", "CALLER", "NUMBERS", "BY", "WHY", "ID"}, optional: map[string]string{"WHY": none}}
	for i := range overrides {
		o := &overrides[i]
		ends := moment(o.Until)
		if o.Until != nil && o.Until.Before(time.Now()) {
			ends += " (ended)"
		}
		rule, _ := set.Rule(o.Rule)
		t.add(ends, o.Rule, callerText(o.Identity), numbersText(o.Times, o.Bands, rule.Measure()), o.Author, o.Reason, o.ID)
	}
	t.write(out)
}

// numbersText shows the numbers of an override of a rule that counts a measure on one line.
func numbersText(times rules.Times, bands []rules.BandDocument, measure string) string {
	if len(bands) == 0 {
		return times.String() + " times"
	}
	own := make([]string, len(bands))
	for i, b := range bands {
		own[i] = strings.TrimPrefix(b.Label+": "+amount.Floor(b.Capacity, measure), ": ")
	}
	return strings.Join(own, ", ")
}
