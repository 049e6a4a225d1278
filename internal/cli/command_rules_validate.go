package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/spf13/cobra"
)

// validation is what validate has found, for programs.
type validation struct {
	Valid    bool    `json:"valid"`
	RuleSets int     `json:"ruleSets"`
	Rules    int     `json:"rules"`
	Problems []place `json:"problems,omitempty"`
}

// place is one thing that is wrong, and where.
type place struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Place   string `json:"place,omitempty"`
	Message string `json:"message"`
}

func newRulesValidate() *cobra.Command {
	var from files
	var as output
	cmd := &cobra.Command{
		Use: "validate -f FILE", Short: "Say what is wrong with files of rules, and where", Args: filesOnly,
		Long: `Say what is wrong with files of rules, with file, line and column. No server is asked, and nothing is saved.
In a folder all files count that end in .yaml, .yml or .json. Each problem begins a line as compilers write it,
file:line:column: message. The exit code is 1 if anything is wrong.`,
		Example: `  fluxgate rules validate -f rules/
  fluxgate rules validate -f api-limits.yaml -f payments.yaml
  fluxgate rules get api-limits | fluxgate rules validate -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sets, wrong := from.read(cmd.Context(), cmd.InOrStdin())
			var called *usageError
			switch all := errors.Join(wrong...); {
			case errors.As(all, &called):
				return all
			case all != nil && as.format == asTable:
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), all)
				return exitCode(exitError)
			}
			found := validationOf(sets, wrong)
			err := as.write(cmd.OutOrStdout(), found, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "%s, %s: good\n", count(found.RuleSets, "rule set"), count(found.Rules, "rule"))
				return err
			})
			if err == nil && !found.Valid {
				err = exitCode(exitError)
			}
			return err
		},
	}
	from.flag(cmd)
	as.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func validationOf(sets []*fluxgate.RuleSet, wrong []error) *validation {
	v := &validation{Valid: len(wrong) == 0, RuleSets: len(sets)}
	for _, set := range sets {
		v.Rules += set.Len()
	}
	for _, err := range wrong {
		var invalid *filerules.Error
		if !errors.As(err, &invalid) {
			v.Problems = append(v.Problems, place{Message: err.Error()})
			continue
		}
		for _, p := range invalid.Problems {
			v.Problems = append(v.Problems, place{p.File, p.Line, p.Column, p.Place, p.Message})
		}
	}
	return v
}
