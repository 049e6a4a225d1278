package filerules

import (
	"fmt"
	"slices"
	"strings"
)

// maxProblems is how many problems an [Error] has at most.
const maxProblems = 100

// Problem is one thing that is wrong with a file, and where.
type Problem struct {
	File string
	// Line and Column count from 1, columns in characters. They are 0 where
	// the problem is with the whole file.
	Line, Column int
	// Place is the path to the value in the file, such as
	// ruleSets[1].rules[3].bands[0].capacity, where there is one.
	Place string
	// Message says what is wrong and what would be right.
	Message string

	source string // the lines around it, or nothing
}

// String is file:line:column, the place and the message, and below them the
// line with a caret unless it may have a secret.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Place != "" {
		b.WriteString(p.Place + ": ")
	}
	b.WriteString(p.Message)
	b.WriteString(p.source)
	return b.String()
}

// Error is everything that is wrong with the files, or the first 100 of it.
// It unwraps to a [*fluxgate.ValidationError] for each rule set that was
// refused.
type Error struct {
	Problems []Problem

	more   int
	causes []error
}

// Error has the problems one after the other.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems), len(e.Problems)+1)
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if e.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems", e.more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap is what the rule sets were refused for.
func (e *Error) Unwrap() []error { return e.causes }

// add takes the problems of one file in, in the order of its lines.
func (e *Error) add(problems []Problem, causes []error) {
	problems = slices.Clone(problems)
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	room := min(maxProblems-len(e.Problems), len(problems))
	e.Problems = append(e.Problems, problems[:room]...)
	e.more += len(problems) - room
	e.causes = append(e.causes, causes[:min(maxProblems-len(e.causes), len(causes))]...)
}

// quote shows a text from a file in a message, shortened.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
