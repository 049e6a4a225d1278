package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/spf13/cobra"
)

// explanation is what explain has found, for programs.
type explanation struct {
	*admin.Explanation
	// Others is how many rules do not apply and are left out.
	Others int `json:"notApplying,omitempty"`
}

func newExplain() *cobra.Command {
	var from where
	var as output
	var what requestFlags
	var all bool
	cmd := &cobra.Command{
		Use: "explain", Short: "Say what is decided about a request, and why", Args: noArgs,
		Long: `Say what would be decided about a request now, by which rules, and in which buckets it counts. With --all say of
every other rule why it does not apply. Nothing is taken.`,
		Example: `  fluxgate explain --user ada --path /api/orders --method POST
  fluxgate explain --rule-set api-limits --ip 192.0.2.7 --attribute tier=premium --all
  fluxgate explain --user ada --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := what.read()
			if err != nil {
				return err
			}
			return from.work(cmd, needDecisions, func(ctx context.Context, operator admin.Operator) error {
				if req.RuleSet == "" {
					if req.RuleSet, err = defaultRuleSet(ctx, operator); err != nil {
						return err
					}
				}
				told, err := operator.Explain(ctx, req)
				if err != nil {
					return err
				}
				found := &explanation{Explanation: told}
				if !all {
					found.leaveOut()
				}
				return as.write(cmd.OutOrStdout(), found, found.print)
			})
		},
	}
	from.flags(cmd)
	as.flag(cmd, asTable, asJSON, asYAML)
	cmd.Flags().StringVar(&what.request.RuleSet, "rule-set", "", ruleSetHelp)
	cmd.Flags().BoolVar(&all, "all", false, "show rules that do not apply too, and why")
	what.add(cmd)
	cmd.Flags().Int64Var(&what.request.Cost, "cost", 1, "how many tokens it would take")
	return cmd
}

// leaveOut takes the rules out that do not apply.
func (e *explanation) leaveOut() {
	e.Rules = slices.DeleteFunc(e.Rules, func(v admin.Verdict) bool {
		if !v.Applies {
			e.Others++
		}
		return !v.Applies
	})
}

func (e *explanation) print(out io.Writer) error {
	if d := e.Decision; d != nil {
		if err := printVerdict(out, d, "would be held for"); err != nil {
			return err
		}
		if err := printBands(out, d.Bands); err != nil {
			return err
		}
		if len(e.Rules) > 0 {
			_, _ = fmt.Fprintln(out) // what follows has the error
		}
	}
	if len(e.Readings) > 0 {
		_, _ = fmt.Fprintf(out, "The path has %d readings, and the limits of all apply:\n", len(e.Readings))
		for _, path := range e.Readings {
			_, _ = fmt.Fprintf(out, "  %s\n", printable.Line(path, maxCell))
		}
		_, _ = fmt.Fprintln(out)
	}
	t := newTable(out, "RULE", "APPLIES", "WHY", "BUCKET")
	for i := range e.Rules {
		v := &e.Rules[i]
		if v.Applies {
			t.row(v.Rule, "yes", whyApplies(v), v.Key)
		} else {
			t.row(v.Rule, "no", whyNot(v), v.Key)
		}
	}
	if err := t.flush(); err != nil || e.Others == 0 {
		return err
	}
	verb := "do"
	if e.Others == 1 {
		verb = "does"
	}
	_, err := fmt.Fprintf(out, "%s of %s %s not apply: --all says why\n", count(e.Others, "rule"), printable.Line(e.RuleSet, maxCell), verb)
	return err
}

// whyNot is what keeps a rule from applying.
func whyNot(v *admin.Verdict) string {
	switch {
	case v.Why == string(fluxgate.WhyReading):
		return "allows only some readings of the path"
	case v.Detail == "":
		return v.Why
	case v.Why == string(fluxgate.WhyGroup) || v.Why == string(fluxgate.WhyEnded):
		return v.Why + ", after " + v.Detail
	}
	return v.Why + " " + v.Detail
}

// whyApplies is what a rule does with the request.
func whyApplies(v *admin.Verdict) string {
	var text string
	switch {
	case v.Action == string(fluxgate.ActionAllow):
		text = "allows it"
	case v.Action == string(fluxgate.ActionDeny):
		text = "denies it"
	case len(v.Missing) > 0 && v.Key == "":
		text = "refuses it without " + strings.Join(v.Missing, ", ")
	case len(v.Identity) > 0:
		text = "counts by " + strings.Join(v.Identity, ", ")
	default:
		text = "counts all together"
	}
	if len(v.Missing) > 0 && v.Key != "" {
		text += ", without " + strings.Join(v.Missing, ", ")
	}
	if v.Shadow {
		text += ", in shadow"
	}
	return text
}
