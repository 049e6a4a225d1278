package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manPages returns a page for every command, by name: fluxgate-rules-apply is the
// page of fluxgate rules apply. Words are not hyphenated: names could not be searched for.
func manPages(root *cobra.Command, version, date string) map[string]string {
	pages := map[string]string{}
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		name := pageName(cmd)
		title := fmt.Sprintf(".TH %s 1 %q %q \"FluxGate\"\n.nh\n.ad l\n", escape(strings.ToUpper(name)), date, "fluxgate "+version)
		pages[name] = title + manPage(cmd)
		for _, child := range children(cmd) {
			add(child)
		}
	}
	add(root)
	return pages
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// children are the commands below a command that users see.
func children(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(child *cobra.Command) bool { return !child.IsAvailableCommand() })
}

func manPage(cmd *cobra.Command) string {
	var page strings.Builder
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&page, ".SH %s\n%s\n", title, strings.TrimRight(text, "\n"))
		}
	}
	below := children(cmd)
	use := cmd.UseLine()
	if len(below) > 0 {
		use = cmd.CommandPath() + " COMMAND"
	}
	description := cmd.Long
	if description == "" {
		description = cmd.Short + "."
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	section("NAME", escape(pageName(cmd))+` \- `+escape(cmd.Short))
	section("SYNOPSIS", bold(use))
	section("DESCRIPTION", paragraphs(description))
	section("COMMANDS", commandList(below))
	section("OPTIONS", options(cmd.Flags()))
	if cmd.Example != "" {
		section("EXAMPLES", ".EX\n"+escapeLines(cmd.Example)+"\n.EE")
	}
	section("SEE ALSO", seeAlso(cmd, below))
	return page.String()
}

func commandList(commands []*cobra.Command) string {
	var list strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&list, ".TP\n%s\n%s\n", bold(c.Name()), escape(c.Short))
	}
	return list.String()
}

func options(flags *pflag.FlagSet) string {
	var list strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		names := bold("--" + f.Name)
		if f.Shorthand != "" {
			names = bold("-"+f.Shorthand) + ", " + names
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			names += ` \fI` + escape(value) + `\fR`
		}
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&list, ".TP\n%s\n%s\n", names, escapeLines(usage))
	})
	return list.String()
}

// seeAlso names the pages above and below a command.
func seeAlso(cmd *cobra.Command, below []*cobra.Command) string {
	var refs []string
	if cmd.HasParent() {
		below = append([]*cobra.Command{cmd.Parent()}, below...)
	}
	for _, c := range below {
		refs = append(refs, bold(pageName(c))+"(1)")
	}
	return strings.Join(refs, ",\n")
}

// paragraphs fills text, with a new paragraph after each empty line.
func paragraphs(text string) string {
	return strings.ReplaceAll(escapeLines(text), "\n\n", "\n.PP\n")
}

func bold(text string) string { return `\fB` + escape(text) + `\fR` }

// escape writes backslashes and hyphens so that roff leaves them as they are.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
}

// escapeLines also keeps roff from reading a line as a request.
func escapeLines(text string) string {
	lines := strings.Split(escape(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
