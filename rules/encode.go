package rules

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrTooLarge is wrapped by errors about rule sets whose JSON is longer than
// [MaxDocument].
var ErrTooLarge = errors.New("the rule set is too large")

// CheckSize returns an error if the JSON of a rule set is too long. Editors call
// it before they commit.
func CheckSize(document []byte) error {
	if len(document) > MaxDocument {
		return fmt.Errorf("%w: it has %d bytes as JSON, at most %d can be kept", ErrTooLarge, len(document), MaxDocument)
	}
	return nil
}

// Encode returns the JSON of a rule set for an editor to keep, and the rule set
// decoded from it, because the caller can still change attributes of its own.
func Encode(set *Set) (own *Set, document []byte, err error) {
	if document, err = json.Marshal(set); err != nil {
		return nil, nil, fmt.Errorf("writing a rule set as JSON: %w", err)
	}
	if err := CheckSize(document); err != nil {
		return nil, nil, err
	}
	own, err = Parse(document)
	return own, document, err
}
