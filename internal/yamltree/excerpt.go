package yamltree

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/printable"
)

const (
	// shownWidth is how much of a line is shown.
	shownWidth = 100
	// maxLine is the longest line of which a part is shown. Longer ones were not
	// written by hand, and would take long to search.
	maxLine = 10_000
)

// excerpt shows lines of a file, except those that may have a secret.
type excerpt struct {
	// isSecret reports whether a name or a line may have a secret. It may be nil.
	isSecret func(string) bool
	lines    []string
	hidden   []bool // by line
}

// within returns the position, or the end of its line if that is shorter.
func (e *excerpt) within(at Position) Position {
	if at.Line > 0 && at.Line <= len(e.lines) && len(e.lines[at.Line-1]) <= maxLine {
		at.Column = min(at.Column, utf8.RuneCountInString(e.lines[at.Line-1])+1)
	}
	return at
}

// show formats the line of a position and the one before it, with a caret. Lines that may
// have a secret are not shown.
func (e *excerpt) show(at Position) string {
	if at.Line < 1 || at.Line > len(e.lines) || e.secret(at.Line) {
		return ""
	}
	line := []rune(e.lines[at.Line-1])
	column := at.Column - 1
	from := 0
	if column > shownWidth*3/4 {
		from = column - shownWidth/2
	}
	var b strings.Builder
	if before := at.Line - 1; before > 0 && from == 0 && !e.secret(before) && showable(e.lines[before-1]) {
		fmt.Fprintf(&b, "\n%5d | %s", before, window([]rune(e.lines[before-1]), 0))
	}
	caret := column - from
	if from > 0 {
		caret++ // for the dots
	}
	fmt.Fprintf(&b, "\n%5d | %s", at.Line, window(line, from))
	fmt.Fprintf(&b, "\n      | %s^", strings.Repeat(" ", caret))
	return b.String()
}

// showable reports whether to show a line. A comment does not help, and may have
// commented-out secrets.
func showable(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#'
}

// window returns the part of a line that is shown, safe for a terminal.
func window(line []rune, from int) string {
	dots := ""
	if from > 0 {
		dots = "…"
	}
	line = line[from:]
	end := ""
	if len(line) > shownWidth {
		line, end = line[:shownWidth], "…"
	}
	return dots + strings.TrimRight(printable.Line(string(line), len(line)), " ") + end
}

// secret reports whether a line may have a secret.
func (e *excerpt) secret(line int) bool {
	return e.hidden[line-1] || len(e.lines[line-1]) > maxLine || e.names(e.lines[line-1])
}

// secretNames are names of fields with secrets, without - and _.
var secretNames = regexp.MustCompile(`(?i)apikey|authorization|cookie|secret|password`)

var separators = strings.NewReplacer("-", "", "_", "")

// NamesSecret reports whether a string contains the name of a secret.
func NamesSecret(s string) bool {
	return secretNames.MatchString(separators.Replace(s))
}

// names reports whether a name or a line may have a secret.
func (e *excerpt) names(s string) bool {
	return NamesSecret(s) || e.isSecret != nil && e.isSecret(s)
}

// hideAfterFirst hides everything from the first line on that names a secret. It is used
// for a file that could not be parsed, where the end of the secret is unknown.
func (e *excerpt) hideAfterFirst() {
	found := false
	for i, line := range e.lines {
		found = found || e.names(line)
		e.hidden[i] = found
	}
}

// hide hides the lines of every field with the name of a secret, up to the next field.
func (e *excerpt) hide(roots []*Node) {
	last, hiding := Position{Line: 1}, false
	reach := func(at Position, secret bool) {
		for line := last.Line; hiding && (line < at.Line || line == at.Line && !e.opensLine(at)); line++ {
			e.hidden[line-1] = true
		}
		last, hiding = at, secret
	}
	var walk func(n *Node, inside bool)
	walk = func(n *Node, inside bool) {
		for _, item := range n.Items {
			reach(item.At, inside)
			walk(item, inside)
		}
		for _, f := range n.Fields {
			secret := inside || e.names(f.Name)
			reach(f.At, secret)
			walk(f.Value, secret)
		}
	}
	for _, root := range roots {
		reach(root.At, false)
		walk(root, false)
	}
	reach(Position{Line: len(e.lines) + 1}, false)
}

// opensLine reports whether a position is at the beginning of its line, or after the last
// line.
func (e *excerpt) opensLine(at Position) bool {
	if at.Line > len(e.lines) || len(e.lines[at.Line-1]) > maxLine {
		return at.Line > len(e.lines)
	}
	line := []rune(e.lines[at.Line-1])
	return strings.Trim(string(line[:min(at.Column-1, len(line))]), " \t-{[") == ""
}
