// Package cli is the command line of the fluxgate program.
//
// Files named command_ hold one command or one group of commands each, files named flags_
// the flags that commands share. A target is what a command works on: a server, or with
// --direct the rule source and the store that a configuration names; both are an
// [admin.Operator]. Files named render_ write results as a table, JSON or YAML.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes, as fluxgate --help says.
const (
	exitOK      = 0
	exitError   = 1
	exitDrift   = 2  // rules differ from what the files say, or a change was not confirmed
	exitRefused = 3  // check: the request may not pass
	exitTrouble = 4  // doctor: something is wrong
	exitUsage   = 64 // as sysexits.h has it
)

// Main runs the command line of the process and returns its exit code.
func Main(version string) int {
	return run(context.Background(), version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

func run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(version)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	}
	_, _ = fmt.Fprintf(stderr, "fluxgate: %v\n", err)
	var wrong *usageError
	if errors.As(err, &wrong) {
		return exitUsage
	}
	return exitError
}

// exitCode is an error that was told already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is about how a command was called.
type usageError struct{ error }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func newRoot(version string) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "fluxgate",
		Short: "Distributed rate limiting in front of your APIs",
		Long: `fluxgate decides, for every request that reaches an API, whether it may pass now.

Exit codes: 0 done; 1 an error; 2 the rules differ from the files (rules diff, rules apply), or a change was
not confirmed; 3 the checked request may not pass; 4 doctor has found something wrong; 64 called in a wrong way.`,
		Example: `  fluxgate serve --set rules.file=rules.yaml --set redis.enabled=false --set mongo.enabled=false
  fluxgate check --user ada --path /api/orders
  fluxgate rules apply -f rules.yaml
  fluxgate doctor --config fluxgate.yaml`,
		SilenceUsage: true, SilenceErrors: true,
	}, newServe(), newCheck(), newRules(), newBucket(), newExplain(), newConfig(), newToken(), newDoctor(), newVersion())
	root.Version = fullVersion(version)
	root.SetVersionTemplate("fluxgate {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w\nsee %s --help", err, cmd.CommandPath())
	})
	return root
}

// group is a command that others stand below. By itself it shows its help.
func group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		meant := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			meant = ": did you mean " + strings.Join(near, " or ") + "?"
		}
		return usage("unknown command %q%s\nsee %s --help", args[0], meant, cmd.CommandPath())
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, b := range below {
		complete(b)
	}
	cmd.AddCommand(below...)
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "fluxgate", cmd.Root().Version)
			return err
		},
	}
}

// fullVersion has the commit too, where the build knows it.
func fullVersion(version string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return version + " (" + s.Value[:12] + ")"
		}
	}
	return version
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, and got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
