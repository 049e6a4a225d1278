package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/fluxgate/fluxgate/server"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

func newDoctor() *cobra.Command {
	var from sources
	var output string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Connect to everything and say what is wrong, and how to mend it", Args: noArgs,
		Long: `Read the configuration, connect to Redis and to the source of the rules, and say what is wrong and how
to mend it. Nothing is changed, but that what a server would make at its first start is made if it is missing: the
record that all servers of a fleet agree on, and indexes in MongoDB.
The exit code is 0 if all is well, 4 if something is wrong.`,
		Example: "  fluxgate doctor --config fluxgate.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" && output != "yaml" {
				return &usageError{fmt.Errorf("unknown output %q: use table, json or yaml", output)}
			}
			c, err := from.load()
			if err != nil {
				return err
			}
			findings := server.Diagnose(cmd.Context(), c)
			if err := printFindings(cmd.OutOrStdout(), findings, output); err != nil {
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
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	return cmd
}

func printFindings(out io.Writer, findings []server.Finding, format string) error {
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(findings)
	}
	if format == "yaml" {
		return yaml.NewEncoder(out, yaml.UseJSONMarshaler()).Encode(findings)
	}
	paint := painter(out)
	for _, f := range findings {
		if _, err := fmt.Fprintf(out, "%s  %-14s %s\n", paint(f.Verdict, fmt.Sprintf("%-5s", f.Verdict)), f.Part, f.Says); err != nil {
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
