package match

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// scanLimit is up to how many strings or rules looking at each is no slower than
// an index.
const scanLimit = 4

// A valueSet is a set of strings. The zero value is empty.
type valueSet struct {
	few  []string
	many map[string]struct{} // instead of few, if there are many
}

func newValueSet(values []string) valueSet {
	if len(values) <= scanLimit {
		return valueSet{few: slices.Clone(values)}
	}
	many := make(map[string]struct{}, len(values))
	for _, v := range values {
		many[v] = struct{}{}
	}
	return valueSet{many: many}
}

func (s *valueSet) empty() bool { return len(s.few) == 0 && len(s.many) == 0 }

func (s *valueSet) has(value string) bool {
	if s.many == nil {
		return slices.Contains(s.few, value)
	}
	_, found := s.many[value]
	return found
}

// each calls f for every value.
func (s *valueSet) each(f func(string)) {
	for _, v := range s.few {
		f(v)
	}
	for v := range s.many {
		f(v)
	}
}

// A digest is the SHA-256 of an API key.
type digest [sha256.Size]byte

const digestPrefix = "sha256:"

// parseAPIKeys returns the digests of a rule's keys. Its errors never show a key.
func parseAPIKeys(keys []string) ([]digest, error) {
	var digests []digest
	for i, key := range keys {
		if key == "" {
			return nil, fmt.Errorf("apiKeys: entry %d is empty: write a key, or leave apiKeys out to match every request", i+1)
		}
		encoded, isDigest := strings.CutPrefix(key, digestPrefix)
		if !isDigest {
			digests = append(digests, sha256.Sum256([]byte(key)))
			continue
		}
		raw, err := hex.DecodeString(encoded)
		if err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("apiKeys: entry %d begins with %q, which 64 hexadecimal digits must follow", i+1, digestPrefix)
		}
		digests = append(digests, digest(raw))
	}
	return digests, nil
}

// newDigestSet returns nil for no digests: then the rule does not ask for a key.
func newDigestSet(digests []digest) map[digest]struct{} {
	if len(digests) == 0 {
		return nil
	}
	set := make(map[digest]struct{}, len(digests))
	for _, d := range digests {
		set[d] = struct{}{}
	}
	return set
}
