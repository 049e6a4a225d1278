package filerules

import (
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/yamltree"
	"github.com/fluxgate/fluxgate/rules"
)

// Problem is one problem in a file. As a string it is file:line:column, the path
// and the message.
type Problem = yamltree.Problem

// Error has the problems of all files, at most 100. It unwraps to a
// [*rules.ValidationError] for each invalid rule set.
type Error struct {
	yamltree.ErrorList

	causes []error
}

// NewError returns an error with the problems of a file, for [Config.Parse]. The rule set
// may be empty.
func NewError(ruleSet string, problems []Problem) *Error {
	cause := &rules.ValidationError{RuleSetID: ruleSet}
	for _, p := range problems {
		cause.Problems = append(cause.Problems, rules.Problem{Code: rules.CodeInvalidValue, Subject: p.File, Message: p.Message})
	}
	return &Error{yamltree.ErrorList{Problems: problems}, []error{cause}}
}

// Unwrap returns the errors of the invalid rule sets.
func (e *Error) Unwrap() []error { return e.causes }

// maxCauses is how many errors of rule sets an [Error] has at most.
const maxCauses = 100

// merge collects the problems of all files in the order of their lines, including
// duplicate rule sets. It returns nil or an *Error.
func merge(documents []*document) error {
	var found Error
	first := map[string]string{} // where each rule set is
	for _, d := range documents {
		all := document{file: d.file, problems: slices.Clone(d.problems), causes: slices.Clone(d.causes)}
		for _, s := range d.sets {
			place, at := rules.Path{"id"}, fmt.Sprintf("%s:%d:%d", d.file.Name, s.at.Line, s.at.Column)
			if s.at.Line == 0 { // of another format
				place, at = nil, d.file.Name
			}
			other, taken := first[s.id]
			if !taken || s.id == "" {
				first[s.id] = at
				continue
			}
			all.refuse(&yamltree.Node{At: s.at}, s.path, s.id, rules.Problem{
				Code: rules.CodeDuplicate, Path: place, Message: fmt.Sprintf("rule set %s is in %s already", printable.Quote(s.id), other),
			})
		}
		for _, p := range all.problems {
			found.Add(p)
		}
		found.causes = append(found.causes, all.causes...)
	}
	if len(found.Problems) == 0 {
		return nil
	}
	found.Sort()
	found.causes = found.causes[:min(len(found.causes), maxCauses)]
	return &found
}
