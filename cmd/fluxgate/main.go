// Fluxgate is the server and its command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// The exit codes, as fluxgate --help says.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitRefused = 3 // check: the request may not pass
	exitTrouble = 4 // doctor: something is wrong
)

// version is what was released. The build says it with -ldflags.
var version = "dev"

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process, for tests.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
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
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

// exitCode is an error that was told already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is about how a command was called.
type usageError struct{ error }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "fluxgate",
		Short: "Distributed rate limiting in front of your APIs",
		Long: `fluxgate decides, for every request that reaches an API, whether it may pass now.

Exit codes: 0 done; 1 an error; 2 called in a wrong way; 3 the checked request may not pass;
4 doctor has found something wrong.`,
		Example: `  fluxgate serve --set rules.file=rules.yaml --set redis.enabled=false --set mongo.enabled=false
  fluxgate check --user ada --path /api/orders
  fluxgate doctor --config fluxgate.yaml`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w\nsee fluxgate %s --help", err, cmd.Name())}
	})
	root.AddCommand(newServe(), newCheck(), newConfig(), newDoctor(), newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "fluxgate", fullVersion())
			return err
		},
	}
}

// fullVersion has the commit too, where the build knows it.
func fullVersion() string {
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
		return &usageError{fmt.Errorf("%s takes no arguments, and got %q", cmd.CommandPath(), args[0])}
	}
	return nil
}
