package yamltree

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/printable"
)

const (
	// shownWidth is how much of a line is shown.
	shownWidth = 100
	// maxLine is the longest line that parts are shown of. What has longer
	// ones was not written by hand, and would take long to search.
	maxLine = 10_000
)

// text is the content of a file, to show parts of it.
type text struct {
	// isSecret says of a name or a line whether it may have a secret. It may be
	// nil: some are known without it.
	isSecret func(string) bool
	lines    []string
	hidden   []lineRange
}

// lineRange is from a line to another one, both included.
type lineRange struct{ first, last int }

// within is the position, or the end of its line if that is shorter: parsers
// are not always sure of their columns.
func (t *text) within(at Position) Position {
	if at.Line > 0 && at.Line <= len(t.lines) && len(t.lines[at.Line-1]) <= maxLine {
		at.Column = min(at.Column, utf8.RuneCountInString(t.lines[at.Line-1])+1)
	}
	return at
}

// show renders the line of a position and the one before it, with a caret.
// Lines that may have a secret are not shown.
func (t *text) show(at Position) string {
	if at.Line < 1 || at.Line > len(t.lines) || t.secret(at.Line) {
		return ""
	}
	line := []rune(t.lines[at.Line-1])
	column := at.Column - 1
	from := 0
	if column > shownWidth*3/4 {
		from = column - shownWidth/2
	}
	var b strings.Builder
	if before := at.Line - 1; before > 0 && from == 0 && !t.secret(before) && showable(t.lines[before-1]) {
		fmt.Fprintf(&b, "\n%5d | %s", before, window([]rune(t.lines[before-1]), 0))
	}
	caret := column - from
	if from > 0 {
		caret++ // for the dots
	}
	fmt.Fprintf(&b, "\n%5d | %s", at.Line, window(line, from))
	fmt.Fprintf(&b, "\n      | %s^", strings.Repeat(" ", caret))
	return b.String()
}

// showable reports whether a line helps to find the place. A comment does not,
// and may hold what was commented out.
func showable(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#'
}

// window is the part of a line that is shown, without anything that could
// garble a terminal.
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

// secret reports whether a line may have a secret in it.
func (t *text) secret(line int) bool {
	for _, r := range t.hidden {
		if line >= r.first && line <= r.last {
			return true
		}
	}
	return len(t.lines[line-1]) > maxLine || t.names(t.lines[line-1])
}

// secretNames are what fields with secrets are called, without - and _.
var secretNames = []string{"apikey", "authorization", "cookie", "secret", "password"}

var separators = strings.NewReplacer("-", "", "_", "")

// NamesSecret reports whether a text names something that is known to be a
// secret.
func NamesSecret(s string) bool {
	s = strings.ToLower(separators.Replace(s))
	for _, name := range secretNames {
		if strings.Contains(s, name) {
			return true
		}
	}
	return false
}

// names reports whether a name or a line may have a secret.
func (t *text) names(s string) bool {
	return NamesSecret(s) || t.isSecret != nil && t.isSecret(s)
}

// hideAfterFirst hides everything from the first line on that names a secret.
// It is for a file that could not be read, where nobody knows what is inside
// of what.
func (t *text) hideAfterFirst() {
	for i, line := range t.lines {
		if t.names(line) {
			t.hidden = append(t.hidden, lineRange{i + 1, len(t.lines)})
			return
		}
	}
}

// hide hides the lines of every field that is called like a secret, from its
// name to whatever comes after it.
func (t *text) hide(roots []*Node) {
	open := 0 // the line that the field began in, 0 if none is open
	closeAt := func(at Position) {
		if open == 0 {
			return
		}
		last := at.Line
		if t.opensLine(at) {
			last--
		}
		t.hidden = append(t.hidden, lineRange{open, max(open, last)})
		open = 0
	}
	var walk func(n *Node, inside bool)
	walk = func(n *Node, inside bool) {
		for _, item := range n.Items {
			if !inside {
				closeAt(item.At)
			}
			walk(item, inside)
		}
		for _, f := range n.Fields {
			if !inside {
				closeAt(f.At)
			}
			secret := !inside && t.names(f.Name)
			if secret {
				open = f.At.Line
			}
			walk(f.Value, inside || secret)
		}
	}
	for _, root := range roots {
		closeAt(root.At)
		walk(root, false)
	}
	closeAt(Position{len(t.lines) + 1, 1})
}

// opensLine reports whether nothing stands before a position in its line.
func (t *text) opensLine(at Position) bool {
	if at.Line > len(t.lines) {
		return true
	}
	if len(t.lines[at.Line-1]) > maxLine {
		return false
	}
	line := []rune(t.lines[at.Line-1])
	return strings.Trim(string(line[:min(at.Column-1, len(line))]), " \t-{[") == ""
}
