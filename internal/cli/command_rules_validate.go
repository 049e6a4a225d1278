package cli

import (
	"errors"
	"io"

	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/spf13/cobra"
)

// validation is the output of validate.
type validation struct {
	Valid    bool                `json:"valid"`
	RuleSets int                 `json:"ruleSets"`
	Rules    int                 `json:"rules"`
	Problems []filerules.Problem `json:"problems,omitempty"`
}

func newRulesValidate() *cobra.Command {
	var files fileFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use: "validate -f FILE", Short: "Report errors in files of rules, with their places", Args: filesOnly,
		Long: `Report errors in files of rules, with file, line and column. No server is contacted, and nothing is saved.
In a folder all files count that end in .yaml, .yml or .json. Each error begins a line in the format of compilers,
file:line:column: message. The exit code is 1 if there is an error.`,
		Example: `  fluxgate rules validate -f rules/
  fluxgate rules validate -f api-limits.yaml -f payments.yaml
  fluxgate rules get api-limits | fluxgate rules validate -f -
  fluxgate rules validate --from envoy-ratelimit -f ratelimit.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sets, problems := files.read(cmd)
			var misuse *usageError
			switch err := errors.Join(problems...); {
			case errors.As(err, &misuse):
				return err
			case err != nil && output.format == asTable:
				printf(cmd.ErrOrStderr(), "%v\n", err)
				return exitCode(exitError)
			}
			v := validation{Valid: len(problems) == 0, RuleSets: len(sets)}
			for _, set := range sets {
				v.Rules += set.Len()
			}
			for _, err := range problems {
				v.add(err)
			}
			err := output.write(cmd.OutOrStdout(), v, func(out io.Writer) {
				printf(out, "%s, %s: valid\n", count(v.RuleSets, "rule set"), count(v.Rules, "rule"))
			})
			if err == nil && !v.Valid {
				err = exitCode(exitError)
			}
			return err
		},
	}
	files.flag(cmd)
	files.formatFlag(cmd)
	output.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func (v *validation) add(err error) {
	var invalid *filerules.Error
	if errors.As(err, &invalid) {
		v.Problems = append(v.Problems, invalid.Problems...)
	} else {
		v.Problems = append(v.Problems, filerules.Problem{Message: err.Error()})
	}
}
