package rules

import (
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
