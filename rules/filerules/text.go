package filerules

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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
	lines  []string
	hidden []lineRange
}

// lineRange is from a line to another one, both included.
type lineRange struct{ first, last int }

// within is the position, or the end of its line if that is shorter: parsers
// are not always sure of their columns.
func (t *text) within(at position) position {
	if at.line > 0 && at.line <= len(t.lines) && len(t.lines[at.line-1]) <= maxLine {
		at.column = min(at.column, utf8.RuneCountInString(t.lines[at.line-1])+1)
	}
	return at
}

// show renders the line of a position and the one before it, with a caret.
// Lines that may have a secret are not shown.
func (t *text) show(at position) string {
	if at.line < 1 || at.line > len(t.lines) || t.secret(at.line) {
		return ""
	}
	line := []rune(t.lines[at.line-1])
	column := at.column - 1
	from := 0
	if column > shownWidth*3/4 {
		from = column - shownWidth/2
	}
	var b strings.Builder
	if before := at.line - 1; before > 0 && from == 0 && !t.secret(before) && showable(t.lines[before-1]) {
		fmt.Fprintf(&b, "\n%5d | %s", before, window([]rune(t.lines[before-1]), 0))
	}
	caret := column - from
	if from > 0 {
		caret++ // for the dots
	}
	fmt.Fprintf(&b, "\n%5d | %s", at.line, window(line, from))
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
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsGraphic(r):
			return r
		}
		return unicode.ReplacementChar
	}, string(line))
	return dots + strings.TrimRight(clean, " ") + end
}

// secret reports whether a line may have a secret in it.
func (t *text) secret(line int) bool {
	for _, r := range t.hidden {
		if line >= r.first && line <= r.last {
			return true
		}
	}
	return len(t.lines[line-1]) > maxLine || namesSecret(t.lines[line-1])
}

// secretNames are what fields with secrets are called, without - and _.
var secretNames = []string{"apikey", "authorization", "cookie", "secret", "password"}

var separators = strings.NewReplacer("-", "", "_", "")

func namesSecret(s string) bool {
	s = strings.ToLower(separators.Replace(s))
	for _, name := range secretNames {
		if strings.Contains(s, name) {
			return true
		}
	}
	return false
}

// hideAfterFirst hides everything from the first line on that names a secret.
// It is for a file that could not be read, where nobody knows what is inside
// of what.
func (t *text) hideAfterFirst() {
	for i, line := range t.lines {
		if namesSecret(line) {
			t.hidden = append(t.hidden, lineRange{i + 1, len(t.lines)})
			return
		}
	}
}

// hide hides the lines of every field that is called like a secret, from its
// name to whatever comes after it.
func (t *text) hide(roots []*node) {
	open := 0 // the line that the field began in, 0 if none is open
	closeAt := func(at position) {
		if open == 0 {
			return
		}
		last := at.line
		if t.opensLine(at) {
			last--
		}
		t.hidden = append(t.hidden, lineRange{open, max(open, last)})
		open = 0
	}
	var walk func(n *node, inside bool)
	walk = func(n *node, inside bool) {
		for _, item := range n.items {
			if !inside {
				closeAt(item.at)
			}
			walk(item, inside)
		}
		for _, f := range n.fields {
			if !inside {
				closeAt(f.at)
			}
			secret := !inside && namesSecret(f.name)
			if secret {
				open = f.at.line
			}
			walk(f.value, inside || secret)
		}
	}
	for _, root := range roots {
		closeAt(root.at)
		walk(root, false)
	}
	closeAt(position{len(t.lines) + 1, 1})
}

// opensLine reports whether nothing stands before a position in its line.
func (t *text) opensLine(at position) bool {
	if at.line > len(t.lines) {
		return true
	}
	if len(t.lines[at.line-1]) > maxLine {
		return false
	}
	line := []rune(t.lines[at.line-1])
	return strings.Trim(string(line[:min(at.column-1, len(line))]), " \t-{[") == ""
}
