package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const reference = "../../docs/cli.md"

// docs/cli.md is generated from the commands. UPDATE_GOLDEN=1 writes it.
func TestReference_Golden(t *testing.T) {
	root := documentedRoot()
	var b strings.Builder
	writeReference(t, &b, root)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(reference, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(reference); err != nil || string(is) != b.String() {
		t.Errorf("docs/cli.md differs from the commands (%v): run UPDATE_GOLDEN=1 go test ./internal/cli", err)
	}
}

// The exit codes name commands that exist.
func TestExitCodes_Commands(t *testing.T) {
	root := documentedRoot()
	for _, e := range exitCodes {
		for _, name := range e.commands {
			if cmd, rest, err := root.Find(strings.Fields(name)); err != nil || len(rest) > 0 || cmd == root {
				t.Errorf("exit code %d is of %q, which is no command", e.code, name)
			}
		}
	}
}

func documentedRoot() *cobra.Command {
	root := newRoot("dev")
	root.InitDefaultCompletionCmd()
	return root
}

// leaves calls do with every command that does something, in the order of the help.
func leaves(cmd *cobra.Command, do func(*cobra.Command)) {
	for _, child := range cmd.Commands() {
		if child.HasSubCommands() {
			leaves(child, do)
		} else if child.Name() != "help" {
			do(child)
		}
	}
}

// A flag of this many commands is described once.
const common = 5

// meaningOf is equal for flags that need one description.
func meaningOf(f *pflag.Flag) string { return f.Name + f.DefValue + f.Usage }

func writeReference(t *testing.T, b *strings.Builder, root *cobra.Command) {
	t.Helper()
	uses, shared := map[string]int{}, map[string]*pflag.Flag{}
	leaves(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if uses[meaningOf(f)]++; uses[meaningOf(f)] == common {
				shared[f.Name] = f
			}
		})
	})
	b.WriteString(referenceHead)
	b.WriteString("\n## Exit codes\n\n| code | meaning | commands |\n|---|---|---|\n")
	for _, e := range exitCodes {
		of := "all"
		if len(e.commands) > 0 {
			of = "`" + strings.Join(e.commands, "`, `") + "`"
		}
		fmt.Fprintf(b, "| %d | %s | %s |\n", e.code, e.meaning, of)
	}
	b.WriteString("\n## Common flags\n\nThese mean the same in every command that has them.\n\n")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, f := range shared {
		flags.AddFlag(f)
	}
	writeFlags(b, flags)
	for _, section := range root.Groups() {
		fmt.Fprintf(b, "\n## %s\n", section.ID)
		for _, cmd := range root.Commands() {
			if cmd.GroupID == section.ID && cmd.Name() != "help" {
				writeCommand(t, b, cmd, shared)
			}
		}
	}
}

func writeCommand(t *testing.T, b *strings.Builder, cmd *cobra.Command, shared map[string]*pflag.Flag) {
	t.Helper()
	if cmd.Short == "" {
		t.Errorf("%s says nothing about itself", cmd.CommandPath())
	}
	fmt.Fprintf(b, "\n### %s\n\n%s\n", cmd.CommandPath(), prose(cmd))
	if cmd.HasSubCommands() {
		b.WriteString("\n| command | |\n|---|---|\n")
		for _, child := range cmd.Commands() {
			fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", child.CommandPath(), strings.ReplaceAll(child.CommandPath(), " ", "-"), child.Short)
		}
	} else {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	writeOwnFlags(b, cmd, shared)
	writeExitCodes(b, cmd)
	for _, child := range cmd.Commands() {
		writeCommand(t, b, child, shared)
	}
}

// writeOwnFlags writes the flags of a command, those of other commands by name.
func writeOwnFlags(b *strings.Builder, cmd *cobra.Command, shared map[string]*pflag.Flag) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	var others []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch s := shared[f.Name]; {
		case f.Name == "help":
		case s != nil && meaningOf(s) == meaningOf(f):
			others = append(others, "`--"+f.Name+"`")
		default:
			own.AddFlag(f)
		}
	})
	if own.HasFlags() {
		b.WriteString("\n")
		writeFlags(b, own)
	}
	if len(others) > 0 {
		fmt.Fprintf(b, "\n[Common flags](#common-flags): %s.\n", strings.Join(others, ", "))
	}
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| flag | value | default | meaning |\n|---|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		name, value, usual := "`--"+f.Name+"`", kinds[f.Value.Type()], ""
		if value == "" {
			value = f.Value.Type()
		}
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if f.Value.Type() == "bool" {
			value = ""
		}
		if !slices.Contains([]string{"", "[]", "0", "false"}, f.DefValue) {
			usual = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, value, usual, codeWords(f.Usage))
	})
}

// kinds are the values of flags whose type has a name that only programmers know.
var kinds = map[string]string{
	"int": "number", "int64": "number", "duration": "time, such as `5s`", "format": "one of those listed", "stringSlice": "list with commas",
	"stringArray": "string, several times", "stringToString": "`name=value`", "stringToInt64": "`name=number`",
}

func writeExitCodes(b *strings.Builder, cmd *cobra.Command) {
	var own []string
	for _, e := range exitCodes {
		if slices.Contains(e.commands, strings.TrimPrefix(cmd.CommandPath(), "fluxgate ")) {
			own = append(own, fmt.Sprintf("%d: %s", e.code, e.meaning))
		}
	}
	if len(own) > 0 {
		fmt.Fprintf(b, "\nExit codes beside [those of all commands](#exit-codes): %s.\n", strings.Join(own, "; "))
	}
}

var (
	codeWord = regexp.MustCompile(`--[a-z][a-z-]*|\bFLUXGATE_[A-Z_]+|\bSIG[A-Z]+`)
	heading  = regexp.MustCompile(`(?m)^#+ `)
)

func codeWords(text string) string {
	return strings.ReplaceAll(codeWord.ReplaceAllString(text, "`$0`"), "|", `\|`)
}

// prose is what a command says about itself, as Markdown.
func prose(cmd *cobra.Command) string {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	var lines []string
	for line := range strings.Lines(heading.ReplaceAllString(strings.TrimSpace(text), "")) {
		if code, ok := strings.CutPrefix(line, "\t"); ok { // as cobra writes commands
			lines = append(lines, "    "+code)
		} else {
			lines = append(lines, codeWords(line))
		}
	}
	return strings.Join(lines, "")
}

const referenceHead = `# Command line

Generated from the commands in ` + "`internal/cli`" + ` by its tests: edit those, and run the tests with ` + "`UPDATE_GOLDEN=1`" + `. ` + "`fluxgate COMMAND --help`" + ` prints
the same.

Commands ask a running server over its admin API (` + "`--server`" + `); ` + "`check`" + ` asks the listener that your applications use. With ` + "`--direct`" + ` those of ` + "`rules`" + ` work
without a server, on the rule source of a configuration. A flag takes precedence over the environment.

| environment variable | instead of |
|---|---|
| ` + "`FLUXGATE_ADMIN`" + ` | ` + "`--server`" + ` of every command but ` + "`check`" + `: the admin listener |
| ` + "`FLUXGATE_SERVER`" + ` | ` + "`--server` of `check`: the `http`" + ` listener |
| ` + "`FLUXGATE_TOKEN`, `FLUXGATE_TOKEN_FILE`" + ` | ` + "`--token-file`" + `; the first is the token itself and takes precedence |
| ` + "`FLUXGATE_CA_FILE`, `FLUXGATE_CERT_FILE`, `FLUXGATE_KEY_FILE`" + ` | the flags of these names, for a server at ` + "`https://`" + ` |
| ` + "`FLUXGATE_CONFIG`" + ` | ` + "`--config`" + ` |
| ` + "`FLUXGATE_…`" + `, such as ` + "`FLUXGATE_REDIS_URI`" + ` | settings of ` + "`serve`, `doctor`, `config`" + ` and of ` + "`--direct`: [configuration](configuration.md)" + ` |
| ` + "`NO_COLOR`" + ` | output without colours |
`
