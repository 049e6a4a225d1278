package yamltree

import (
	"cmp"
	"fmt"
	"slices"
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

// maxProblems is how many problems an [ErrorList] has at most.
const maxProblems = 100

// ErrorList has all problems of files, or the first 100.
type ErrorList struct {
	Problems []Problem

	more int
}

// Add adds a problem.
func (e *ErrorList) Add(p Problem) {
	if len(e.Problems) == maxProblems {
		e.more++
		return
	}
	e.Problems = append(e.Problems, p)
}

// Error returns a line for each problem.
func (e *ErrorList) Error() string {
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems", e.more))
	}
	return strings.Join(lines, "\n")
}

// Sort puts the problems in the order of the lines of each file. Problems without a line come last.
func (e *ErrorList) Sort() {
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		if (a.Line > 0) != (b.Line > 0) {
			return b.Line - a.Line
		}
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
}
