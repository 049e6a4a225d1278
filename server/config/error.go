package config

import "github.com/fluxgate/fluxgate/internal/yamltree"

// Problem is one problem with its position: a file with line and column, a
// variable, or a --set of the command line.
type Problem = yamltree.Problem

// Error has all problems of a configuration, or the first 100.
type Error = yamltree.ErrorList

// errorOf is the error of the problems that were found, nil if there are none.
func errorOf(found *Error) error {
	if len(found.Problems) == 0 {
		return nil
	}
	found.Sort()
	return found
}
