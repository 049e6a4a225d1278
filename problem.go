package fluxgate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a rule set, and where.
type Problem struct {
	// Place is the path to the value, such as rules[3].bands[0].capacity.
	Place string
	// Message says what is wrong and what would be right.
	Message string
}

// String is the place and the message.
func (p Problem) String() string {
	if p.Place == "" {
		return p.Message
	}
	return p.Place + ": " + p.Message
}

// maxProblems is how many problems are collected. A document of ten thousand
// broken rules is untrusted like any other.
const maxProblems = 100

// ValidationError is every problem of a rule set at once, or the first 100.
type ValidationError struct {
	RuleSetID string
	Problems  []Problem
}

// Error has a line for each problem.
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

// problems collects what is wrong while a document is read or checked.
type problems []Problem

func (p *problems) add(place, format string, args ...any) {
	if len(*p) == maxProblems {
		return
	}
	*p = append(*p, Problem{Place: place, Message: fmt.Sprintf(format, args...)})
}

// sort puts the problems in the order of the rules they are about.
func (p problems) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(ruleIndex(a.Place), ruleIndex(b.Place)) })
}

// ruleIndex is N in rules[N]…, or -1.
func ruleIndex(place string) int {
	var n int
	if _, err := fmt.Sscanf(place, "rules[%d]", &n); err != nil {
		return -1
	}
	return n
}

// quote shows a value from a document in a message, shortened: documents are
// untrusted and messages end in logs.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// oneOf lists values for a message.
func oneOf[T ~string](values []T) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}
