package rules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// Problem is one problem of a rule set, with its position.
type Problem struct {
	// Code is the kind of problem, for programs.
	Code ProblemCode
	// Subject is the document that Path begins in, such as a MongoDB document. Empty
	// means the rule set.
	Subject string
	// Path leads to the value. It is empty if the problem is about the whole document.
	Path Path
	// Message describes the problem and how to correct it.
	Message string
}

// ProblemCode is the kind of a [Problem].
type ProblemCode string

// The kinds of problems.
const (
	// CodeSyntax is a text that cannot be parsed.
	CodeSyntax ProblemCode = "syntax"
	// CodeRequired is a missing value.
	CodeRequired ProblemCode = "required"
	// CodeUnknownField is a field that does not exist.
	CodeUnknownField ProblemCode = "unknown-field"
	// CodeWrongType is a value of another type, such as a string for a number.
	CodeWrongType ProblemCode = "wrong-type"
	// CodeInvalidName is an invalid key of a map.
	CodeInvalidName ProblemCode = "invalid-name"
	// CodeInvalidValue is a value that has the right type and is not allowed.
	CodeInvalidValue ProblemCode = "invalid-value"
	// CodeOutOfRange is a number, a string or a list that is too small or too
	// large.
	CodeOutOfRange ProblemCode = "out-of-range"
	// CodeDuplicate is an id, a label or an entry that exists already.
	CodeDuplicate ProblemCode = "duplicate"
	// CodeInconsistent is a value that contradicts another one.
	CodeInconsistent ProblemCode = "inconsistent"
	// CodeUnsupported is a value that a document or a database cannot hold.
	CodeUnsupported ProblemCode = "unsupported"
)

// String returns the position and the message.
func (p Problem) String() string {
	text := p.Message
	if len(p.Path) > 0 {
		text = p.Path.String() + ": " + text
	}
	if p.Subject != "" {
		text = p.Subject + ": " + text
	}
	return text
}

// Path leads to a value in a document. Each element is a string, the name of a
// field, or an int, the position in a list.
type Path []any

// String returns the path as text, such as rules[3].bands[0].capacity. A name with
// special characters is quoted: when.headers["X.Tenant"].
func (p Path) String() string {
	var b strings.Builder
	for i, element := range p {
		name, isName := element.(string)
		switch {
		case !isName:
			fmt.Fprintf(&b, "[%v]", element)
		case name == "" || len(name) > maxIDLength || !syntax.Only(name, "_-"):
			fmt.Fprintf(&b, "[%s]", printable.Quote(name))
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// Rule returns the index of the rule that a path in a rule set leads into, and the
// path inside that rule. The index is -1 if the path leads into no rule.
func (p Path) Rule() (index int, inside Path) {
	if len(p) > 1 && p[0] == "rules" {
		if i, ok := p[1].(int); ok {
			return i, p[2:]
		}
	}
	return -1, p
}

// UnmarshalJSON reads a list of strings and integers.
func (p *Path) UnmarshalJSON(text []byte) error {
	var elements []any
	if err := json.Unmarshal(text, &elements); err != nil {
		return err
	}
	for i, element := range elements {
		switch e := element.(type) {
		case string:
		case float64:
			elements[i] = int(e)
		default:
			return errors.New("a path has only strings and integers")
		}
	}
	*p = elements
	return nil
}

// maxProblems is how many problems are collected: documents are untrusted.
const maxProblems = 100

// ValidationError is every problem of a rule set at once, or the first 100.
type ValidationError struct {
	RuleSetID string
	Problems  []Problem
}

// Error returns a line for each problem.
func (e *ValidationError) Error() string {
	var b strings.Builder
	most := ""
	if len(e.Problems) >= maxProblems {
		most = "at least "
	}
	fmt.Fprintf(&b, "rule set %q has %s%d problem", e.RuleSetID, most, len(e.Problems))
	if len(e.Problems) != 1 {
		b.WriteByte('s')
	}
	for _, p := range e.Problems {
		b.WriteString("\n  ")
		b.WriteString(p.String())
	}
	return b.String()
}

// problems collects what is wrong while a document is read and checked.
type problems struct {
	all []Problem
	// unreadable are paths of values that could not be read. They are absent
	// when the rules are validated, which is not another problem.
	unreadable []Path
}

// err is a [*ValidationError] with the problems in the order of the rules, or
// nil if there are none.
func (p *problems) err(ruleSet string) error {
	if len(p.all) == 0 {
		return nil
	}
	slices.SortStableFunc(p.all, func(a, b Problem) int {
		i, _ := a.Path.Rule()
		j, _ := b.Path.Rule()
		return cmp.Compare(i, j)
	})
	return &ValidationError{RuleSetID: ruleSet, Problems: p.all}
}

// reporter notes problems at a path.
type reporter struct {
	found *problems
	path  Path
}

func (r reporter) at(elements ...any) reporter {
	return reporter{r.found, append(slices.Clip(r.path), elements...)}
}

func (r reporter) add(code ProblemCode, format string, args ...any) {
	if len(r.found.all) < maxProblems && !slices.ContainsFunc(r.found.unreadable, r.follows) {
		r.found.all = append(r.found.all, Problem{Code: code, Path: r.path, Message: fmt.Sprintf(format, args...)})
	}
}

// follows reports whether a problem may be the consequence of an unreadable
// value: at the same path, around it, or an entry of the list.
func (r reporter) follows(unreadable Path) bool {
	n := len(unreadable)
	if len(r.path) >= n {
		return slices.Equal(r.path[:n], unreadable)
	}
	_, isEntry := unreadable[n-1].(int)
	return isEntry && slices.Equal(r.path, unreadable[:n-1])
}
