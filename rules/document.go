package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Current returns the revision that a change must be based on: 0 if the rule set
// does not exist or is deleted.
func (h Head) Current() int64 {
	if h.Deleted {
		return 0
	}
	return h.Revision
}

// Decode returns the version of an entry, with the rule set from JSON written by
// [Encode]. A deletion has no document.
func Decode(entry Entry, document []byte) (*Version, error) {
	if entry.Deleted {
		return &Version{Entry: entry}, nil
	}
	set, err := Parse(document)
	if err == nil && set.ID() != entry.RuleSetID {
		err = fmt.Errorf("the document is of rule set %q", set.ID())
	}
	if err != nil {
		return nil, err
	}
	return &Version{Entry: entry, RuleSet: set}, nil
}

// ValidIDs returns the ids that are valid for a rule set.
func ValidIDs(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !ValidID(id) })
}

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
	if set == nil {
		return nil, nil, &ValidationError{Problems: []Problem{{Code: CodeRequired, Message: "a rule set is required"}}}
	}
	if document, err = json.Marshal(set); err != nil {
		return nil, nil, fmt.Errorf("writing a rule set as JSON: %w", err)
	}
	if err := CheckSize(document); err != nil {
		return nil, nil, err
	}
	own, err = Parse(document)
	return own, document, err
}
