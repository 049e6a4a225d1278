package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/fluxgate/fluxgate/server/doctor"
	"github.com/spf13/cobra"
)

func newDoctor() *cobra.Command {
	var source configFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use: "doctor", Short: "Connect to everything and report problems with their remedies", Args: noArgs,
		Long: `Read the configuration, connect to Redis and to the rule source, check all rule sets and what the servers report, and
report problems with their remedies. Addresses to listen on are not tried: a server that starts names one that is in
use. Doctor creates only what a server creates at its first start, if it is missing: the fleet state in Redis, and
indexes in MongoDB.
The exit code is 0 if there is no problem, 4 if there is one.`,
		Example: "  fluxgate doctor --config fluxgate.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := source.load()
			if err != nil {
				return err
			}
			findings := doctor.Diagnose(cmd.Context(), c)
			err = output.write(cmd.OutOrStdout(), findings, func(out io.Writer) { writeFindings(out, findings) })
			if err == nil && slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Severity == doctor.Wrong }) {
				err = exitCode(exitTrouble)
			}
			return err
		},
	}
	source.flags(cmd)
	output.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func writeFindings(out io.Writer, findings []doctor.Finding) {
	colours := map[doctor.Severity]colour{doctor.Good: green, doctor.Watch: yellow, doctor.Wrong: red}
	paint := painter(out)
	for _, f := range findings {
		printf(out, "%s  %-14s %s\n", paint(colours[f.Severity], fmt.Sprintf("%-5s", f.Severity)), f.Part, f.Says)
		if f.Remedy != "" {
			printf(out, "       %-14s → %s\n", "", f.Remedy)
		}
	}
}
