package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// explanation is the output of explain.
type explanation struct {
	*admin.Explanation
	// Others is the number of rules that do not apply and are left out.
	Others int `json:"notApplying,omitempty"`
}

func newExplain() *cobra.Command {
	var from target
	var request requestFlags
	var all bool
	cmd := &cobra.Command{
		Use: "explain", Short: "Show the decision on a request, and its reasons", Args: noArgs,
		Long: `Show the decision on a request now, the rules that decide it, and the buckets that it counts in. With --all also show why
every other rule does not apply. Nothing is taken.`,
		Example: `  fluxgate explain --user ada --path /api/orders --method POST
  fluxgate explain --rule-set api-limits --ip 192.0.2.7 --attribute tier=premium --all
  fluxgate explain --rule-set llm --model gpt-4o --input-tokens 6000 --max-output-tokens 10000
  fluxgate explain --rule-set edge --descriptor generic_key=login --descriptor remote_address=192.0.2.7
  fluxgate explain --user ada --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := request.read()
			if err != nil {
				return err
			}
			return from.runRuleSet(cmd, &req.RuleSet, func(ctx context.Context, operator admin.Operator) error {
				found, err := operator.Explain(ctx, req)
				if err != nil {
					return err
				}
				noteUncounted(cmd.ErrOrStderr(), req.Costs, found.Decision)
				e := &explanation{Explanation: found, Others: len(found.Rules)}
				if !all {
					e.Rules = slices.DeleteFunc(e.Rules, func(v admin.Verdict) bool { return !v.Applies })
				}
				e.Others -= len(e.Rules)
				return from.show(cmd, e, nil, e.write)
			})
		},
	}
	from.flags(cmd, asTable, asJSON, asYAML)
	cmd.Flags().BoolVar(&all, "all", false, "also show the rules that do not apply, and why")
	request.flags(cmd, ruleSetHelp)
	request.costFlags(cmd)
	return cmd
}

func (e *explanation) write(out io.Writer) {
	if e.Decision != nil {
		writeDecision(out, e.Decision, "would be held for")
		if len(e.Rules) > 0 {
			printf(out, "\n")
		}
	}
	if len(e.Readings) > 0 {
		printf(out, "The path can be read in %d ways, and the limits of all apply:\n", len(e.Readings))
		for _, path := range e.Readings {
			printf(out, "  %s\n", printable.Line(path, maxCell))
		}
		printf(out, "\n")
	}
	t := table{columns: []string{"RULE", "APPLIES", "WHY", "BUCKET"}}
	for i := range e.Rules {
		if v := &e.Rules[i]; v.Applies {
			t.add(v.Rule, "yes", whyApplies(v), v.Key)
		} else {
			t.add(v.Rule, "no", whyNot(v), v.Key)
		}
	}
	t.write(out)
	if e.Others > 0 {
		printf(out, "rules of %s that do not apply: %d; --all shows why\n", printable.Line(e.RuleSet, maxCell), e.Others)
	}
	e.writeMemory(out)
}

// writeMemory writes which answers of the rules that apply may come from memory.
func (e *explanation) writeMemory(out io.Writer) {
	t := table{columns: []string{"RULE", "FROM MEMORY"}}
	for i := range e.Rules {
		if v := &e.Rules[i]; v.Applies && v.FromMemory != "" {
			t.add(v.Rule, v.FromMemory)
		}
	}
	t.writeBelow(out)
}

// whyNot is why a rule does not apply.
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
	missing := strings.Join(v.Missing, ", ")
	switch {
	case v.Action == string(rules.ActionAllow):
		text = "allows it"
	case v.Action == string(rules.ActionDeny):
		text = "rejects it"
	case missing != "" && v.Key == "":
		text = "rejects it without " + missing
	case len(v.Identity) > 0:
		text = "counts by " + strings.Join(v.Identity, ", ")
	default:
		text = "counts all together"
	}
	if missing != "" && v.Key != "" {
		text += ", without " + missing
	}
	if v.Shadow {
		text += ", in shadow"
	}
	if v.NotForProxies {
		text += ", concurrent requests not limited for proxies"
	}
	if o := v.Override; o != nil {
		text += ", override " + numbersText(o.Times, o.Bands, v.Measure)
		if o.Until != nil {
			text += " until " + moment(o.Until)
		}
	}
	return text
}
