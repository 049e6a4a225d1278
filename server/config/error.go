package config

import (
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// maxProblems is how many problems an [Error] has at most.
const maxProblems = 100

// Problem is one thing that is wrong, and where: the file with line and column,
// or the variable, or the assignment of the command line. As a text it has the
// line below it with a caret, unless that may have a secret.
type Problem = yamltree.Problem

// Error is everything that is wrong with a configuration, or the first 100 of
// it.
type Error struct {
	Problems []Problem

	more int
}

// Error has the problems one after the other.
func (e *Error) Error() string { return yamltree.Lines(e.Problems, e.more) }

func (e *Error) add(p Problem) {
	if len(e.Problems) == maxProblems {
		e.more++
		return
	}
	e.Problems = append(e.Problems, p)
}

// sort puts the problems in the order of the file's lines, and those that
// stand in no file behind them.
func (e *Error) sort() {
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		switch {
		case a.Line > 0 && b.Line > 0 && a.File == b.File:
			return a.Line - b.Line
		case (a.Line > 0) != (b.Line > 0):
			return b.Line - a.Line
		}
		return strings.Compare(a.File, b.File)
	})
}

// orNil is the error if there is any problem.
func (e *Error) orNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}
