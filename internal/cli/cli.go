// Package cli is the command line of the fluxgate program.
//
// Files named command_ hold one command or one group of commands each, files
// named flags_ the flags that commands share. A target is what a command works
// on: a server, or for rules with --direct the source that a configuration
// names; both are an [admin.Operator]. Files named render_ write
// results as a table, JSON or YAML.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

const (
	exitOK       = 0
	exitError    = 1
	exitDrift    = 2
	exitRejected = 3
	exitTrouble  = 4
	exitUnknown  = 5
	exitUsage    = 64 // EX_USAGE of sysexits.h
)

// confirming are the commands that compare rules or ask before they change something.
var confirming = []string{"rules apply", "rules diff", "rules restore", "rules delete", "override apply", "bucket reset"}

// exitCodes are those of fluxgate --help and docs/cli.md, with the commands that
// return them: none means all.
var exitCodes = []struct {
	code     int
	meaning  string
	commands []string
}{
	{exitOK, "success", nil},
	{exitError, "error", nil},
	{exitDrift, "the rules differ from the files, or a change was not confirmed", confirming},
	{exitRejected, "the request is rejected", []string{"check"}},
	{exitTrouble, "a problem was found", []string{"doctor"}},
	{exitUnknown, "the rule set does not exist", []string{"check"}},
	{exitUsage, "usage error", nil},
}

// Main runs the command line of the process and returns its exit code.
func Main(version string) int {
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == "ratelimit" { // Envoy Gateway runs /bin/ratelimit of an image, without arguments
		args = append([]string{"serve"}, args...)
	}
	return run(context.Background(), version, args, os.Stdin, os.Stdout, os.Stderr)
}

// Commands returns the root of the commands, for man pages and completion scripts.
func Commands(version string) *cobra.Command { return newRoot(version) }

func run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &stickyWriter{Writer: stdout}
	root := newRoot(version)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if out.err != nil {
		err = fmt.Errorf("cannot write the output: %w", out.err)
	}
	var code exitCode
	var misuse *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	}
	printf(stderr, "fluxgate: %v\n", err)
	if errors.As(err, &misuse) {
		return exitUsage
	}
	return exitError
}

// exitCode is an error whose message was printed already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is about how a command was called.
type usageError struct{ error }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func newRoot(version string) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "fluxgate",
		Short: "Distributed rate limiting in front of your APIs",
		Long:  "fluxgate decides whether a request to an API is allowed now.\n\n" + exitCodesHelp(),
		Example: `  fluxgate serve --set rules.file=rules.yaml --set redis.enabled=false
  fluxgate check --user ada --path /api/orders
  fluxgate rules apply -f rules.yaml
  fluxgate simulate --rules rules.yaml --log access.log
  fluxgate doctor --config fluxgate.yaml`,
		SilenceUsage: true, SilenceErrors: true,
	})
	addSection(root, "Server", newServe(), newConfig(), newDoctor())
	addSection(root, "Rules", newRules(), newOverride(), newSimulate())
	addSection(root, "Decisions", newCheck(), newExplain(), newBucket(), newWarnings())
	addSection(root, "Other", newVersion())
	root.SetCompletionCommandGroupID("Other")
	root.SetHelpCommandGroupID("Other")
	root.Version = fullVersion(version)
	root.SetVersionTemplate("fluxgate {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 { // the flag is that of the command that was meant
			return unknownCommand(cmd, cmd.Flags().Arg(0))
		}
		return usage("%w\nsee %s --help", err, cmd.CommandPath())
	})
	return root
}

// addSection adds commands under a heading of the help and of docs/cli.md.
func addSection(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

func exitCodesHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes:")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "\n  %-3d %s", e.code, e.meaning)
		if len(e.commands) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(e.commands, ", "))
		}
	}
	return b.String()
}

// group makes a command a parent. Called alone it shows its help.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(children...)
	return cmd
}

func unknownCommand(parent *cobra.Command, name string) error {
	hint := ""
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		hint = ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage("unknown command %q%s\nsee %s --help", name, hint, parent.CommandPath())
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Run: func(cmd *cobra.Command, _ []string) { printf(cmd.OutOrStdout(), "fluxgate %s\n", cmd.Root().Version) },
	}
}

// fullVersion adds the commit if the build recorded it.
func fullVersion(version string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return versionOf(version, info)
	}
	return version
}

func versionOf(version string, info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return version + " (" + s.Value[:12] + ")"
		}
	}
	if number, released := strings.CutPrefix(info.Main.Version, "v"); released && version == "dev" {
		return number // go install sets no version and has no repository
	}
	return version
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// stickyWriter keeps its first error, so that commands print without looking at
// errors and run reports them once.
type stickyWriter struct {
	io.Writer
	err error
}

func (w *stickyWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// IsTerminal makes the writer transparent for [isTerminal].
func (w *stickyWriter) IsTerminal() bool { return isTerminal(w.Writer) }

// printf writes to standard output, which keeps its error, or to standard error,
// where one cannot be reported.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
