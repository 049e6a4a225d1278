package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
)

// ContentRevision returns the revision of a rule set in a source that has no revisions of
// its own: a 48-bit hash of the rules, never 0.
func ContentRevision(set *Set) (int64, error) {
	canonical, err := json.Marshal(set)
	if err != nil {
		return 0, fmt.Errorf("writing rule set %q as JSON: %w", set.ID(), err)
	}
	sum := sha256.Sum256(canonical)
	return max(int64(binary.BigEndian.Uint64(sum[:8])>>16), 1), nil
}

// ShownRevision is a revision for people: in text a [ContentRevision] has the first 8
// hexadecimal digits of its hash. JSON has the number.
type ShownRevision int64

// String returns the digits of a hash, or the number.
func (r ShownRevision) String() string {
	if r >= 1<<32 { // no source counts as far
		return fmt.Sprintf("%08x", int64(r)>>16)
	}
	return strconv.FormatInt(int64(r), 10)
}
