package rules

import (
	"errors"
	"fmt"
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
