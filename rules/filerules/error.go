package filerules

import (
	"slices"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// maxProblems is how many problems an [Error] has at most.
const maxProblems = 100

// Problem is one thing that is wrong with a file, and where. As a text it is
// file:line:column, the place and the message, and below them the line with a
// caret unless it may have a secret.
type Problem = yamltree.Problem

// Error is everything that is wrong with the files, or the first 100 of it.
// It unwraps to a [*fluxgate.ValidationError] for each rule set that was
// refused.
type Error struct {
	Problems []Problem

	more   int
	causes []error
}

// Error has the problems one after the other.
func (e *Error) Error() string { return yamltree.Lines(e.Problems, e.more) }

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
