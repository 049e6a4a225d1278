package rules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate"
)

// ErrTooLarge is wrapped by the error of a rule set whose JSON is longer than
// [MaxDocument].
var ErrTooLarge = errors.New("the rule set is too large")

// CheckSize refuses the JSON of a rule set that is too long. Editors call it
// before they commit.
func CheckSize(document []byte) error {
	if len(document) > MaxDocument {
		return fmt.Errorf("%w: it has %d bytes as JSON, at most %d can be kept", ErrTooLarge, len(document), MaxDocument)
	}
	return nil
}

// takenBy stands before the owner in the message of [Taken].
const takenBy = " is already the id of a rule in "

// Taken is the problem of the rule at an index of its rule set whose id a rule
// of another rule set has: ids are unique in a source.
func Taken(index int, rule, owner string) fluxgate.Problem {
	return fluxgate.Problem{Place: fmt.Sprintf("rules[%d].id", index), Message: fmt.Sprintf("%q%srule set %.70q", rule, takenBy, owner)}
}

// HideOwners takes the names of other rule sets out of what is wrong with one,
// for those who may not know of them.
func HideOwners(invalid *fluxgate.ValidationError) *fluxgate.ValidationError {
	hidden := &fluxgate.ValidationError{RuleSetID: invalid.RuleSetID}
	for _, p := range invalid.Problems {
		if rule, _, taken := strings.Cut(p.Message, takenBy); taken {
			p.Message = rule + takenBy + "another rule set"
		}
		hidden.Problems = append(hidden.Problems, p)
	}
	return hidden
}
