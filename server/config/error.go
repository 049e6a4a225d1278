package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// maxProblems is how many problems an [Error] has at most.
const maxProblems = 100

// Problem is one problem with its position: a file with line and column, a
// variable, or a --set of the command line.
type Problem = yamltree.Problem

// Error is all problems of a configuration, or the first 100.
type Error struct {
	Problems []Problem

	more int
}

// Error lists the problems.
func (e *Error) Error() string { return yamltree.Lines(e.Problems, e.more) }

func (e *Error) add(p Problem) {
	if len(e.Problems) == maxProblems {
		e.more++
		return
	}
	e.Problems = append(e.Problems, p)
}

// orNil is the error if there is any problem, in the order of the lines of each
// file, with problems that are in no file at the end.
func (e *Error) orNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		switch {
		case (a.Line > 0) != (b.Line > 0):
			return b.Line - a.Line
		case a.File != b.File:
			return strings.Compare(a.File, b.File)
		}
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return e
}
