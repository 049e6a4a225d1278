package cli

import (
	"fmt"
	"io"

	"github.com/fluxgate/fluxgate/server"
	"github.com/spf13/cobra"
)

func newDoctor() *cobra.Command {
	var from sources
	var as output
	cmd := &cobra.Command{
		Use: "doctor", Short: "Connect to everything and say what is wrong, and how to mend it", Args: noArgs,
		Long: `Read the configuration, connect to Redis and to the source of the rules, try the addresses to listen on, and say
what is wrong and how to mend it. Nothing is changed, but that what a server would make at its first start is made if it is missing: the
record that all servers of a fleet agree on, and indexes in MongoDB.
The exit code is 0 if all is well, 4 if something is wrong.`,
		Example: "  fluxgate doctor --config fluxgate.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			findings := server.Diagnose(cmd.Context(), c)
			err = as.write(cmd.OutOrStdout(), findings, func(out io.Writer) error { return printFindings(out, findings) })
			if err != nil {
				return err
			}
			for _, f := range findings {
				if f.Verdict == server.Wrong {
					return exitCode(exitTrouble)
				}
			}
			return nil
		},
	}
	from.flags(cmd)
	as.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func printFindings(out io.Writer, findings []server.Finding) error {
	colours := map[server.Verdict]colour{server.Good: green, server.Watch: yellow, server.Wrong: red}
	paint := painter(out)
	for _, f := range findings {
		if _, err := fmt.Fprintf(out, "%s  %-14s %s\n", paint(colours[f.Verdict], fmt.Sprintf("%-5s", f.Verdict)), f.Part, f.Says); err != nil {
			return err
		}
		if f.Remedy != "" {
			if _, err := fmt.Fprintf(out, "       %-14s → %s\n", "", f.Remedy); err != nil {
				return err
			}
		}
	}
	return nil
}
