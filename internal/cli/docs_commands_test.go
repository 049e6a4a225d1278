package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every fluxgate command in an example of the help can be typed.
func TestExamples_Commands(t *testing.T) {
	for _, cmd := range append(documentedRoot().Commands(), documentedRoot()) {
		checkCommands(t, cmd.CommandPath(), cmd.Example, 0)
		for _, child := range cmd.Commands() {
			checkCommands(t, child.CommandPath(), child.Example, 0)
		}
	}
}

var (
	shellBlock  = regexp.MustCompile("(?s)\n *```(sh|bash|console)\n(.*?)\n *```")
	commandSpan = regexp.MustCompile("`(fluxgate [^`\n]+)`")
)

// Every fluxgate command in the documentation, in a block or in a sentence,
// exists with its flags.
func TestDocs_Commands(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../../docs/*.md", "../../docs/*/*.md", "../../README*.md"} {
		matching, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, matching...)
	}
	found := 0
	for _, page := range pages {
		text := readFile(t, strings.TrimPrefix(page, "../../"))
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			found += checkCommands(t, page, typedLines(block[1], block[2]), 0)
		}
		for _, span := range commandSpan.FindAllStringSubmatch(text, -1) {
			found += checkCommands(t, page, span[1], 1)
		}
	}
	if found < 100 {
		t.Errorf("only %d commands were found", found)
	}
}

// typedLines are those of a block that a person types.
func typedLines(kind, block string) string {
	if kind != "console" {
		return block
	}
	var typed []string
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
			typed = append(typed, command)
		}
	}
	return strings.Join(typed, "\n")
}

// checkCommands checks the fluxgate commands of a shell script, at least so many,
// and returns how many there are.
func checkCommands(t *testing.T, place, script string, least int) (found int) {
	t.Helper()
	for _, words := range simpleCommands(script) {
		for len(words) > 0 && (words[0] == "sudo" || assignment.MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) == 0 || filepath.Base(words[0]) != "fluxgate" {
			continue
		}
		found++
		if err := parseCommand(words[1:]); err != nil {
			t.Errorf("%s: %q: %v", place, strings.Join(words, " "), err)
		}
	}
	if found < least {
		t.Errorf("%s: no command was found in %q", place, script)
	}
	return found
}

var (
	assignment  = regexp.MustCompile(`^[A-Z_]+=`)
	placeholder = regexp.MustCompile(`^[A-Z]+$`)
)

// parseCommand parses a command line without running it. An ellipsis is a
// placeholder, and a word in capital letters that of a command.
func parseCommand(args []string) error {
	cmd, rest, err := documentedRoot().Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && (len(rest) == 0 || placeholder.MatchString(rest[0])) {
		return nil
	}
	rest = slices.DeleteFunc(slices.Clone(rest), func(word string) bool { return word == "…" })
	if len(rest) > 0 && cmd.Flags().Lookup(strings.TrimLeft(rest[len(rest)-1], "-")) != nil {
		return nil // a sentence names the flag without its value
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if len(cmd.Flags().Args()) == 0 {
		return nil // a sentence leaves the arguments out
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

// simpleCommands splits a shell script into its commands and those into words.
// It knows quotes, comments, continued lines, redirections and pipes.
func simpleCommands(script string) [][]string {
	var all [][]string
	var words []string
	end := func() {
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for _, token := range shellToken.FindAllString(strings.ReplaceAll(script, "\\\n", " "), -1) {
		switch {
		case strings.HasPrefix(token, "#"), strings.TrimSpace(token) == "" && token != "\n":
		case token == "\n", strings.ContainsAny(token[:1], "|;&()"):
			end()
		case strings.ContainsAny(strings.TrimPrefix(token, "2")+" ", "<>"):
			end() // the name of the file is a command of its own, and none of ours
		default:
			words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(token))
		}
	}
	end()
	return all
}

var shellToken = regexp.MustCompile(`\n|[ \t]+|#[^\n]*|[|&;()]+|2?[<>]+|(?:"[^"]*"|'[^']*'|[^\s|&;()<>"'])+`)
