package yamltree

import (
	"fmt"
	"strings"
)

// Problem is one problem in a file.
type Problem struct {
	// File is its name. For a value that is not from a file it is the source, such as
	// an environment variable.
	File string
	// Line and Column count from 1, columns in characters. They are 0 for a
	// problem with the whole file.
	Line, Column int
	// Place is the path to the value in the file, such as
	// ruleSets[1].rules[3].bands[0].capacity. It may be empty.
	Place string
	// Message says what is wrong and how to correct it.
	Message string
}

// String returns file:line:column, the path and the message.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if p.Place != "" {
		b.WriteString(p.Place + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Lines formats problems, and how many more there are.
func Lines(problems []Problem, more int) string {
	lines := make([]string, len(problems), len(problems)+1)
	for i, p := range problems {
		lines[i] = p.String()
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems", more))
	}
	return strings.Join(lines, "\n")
}
