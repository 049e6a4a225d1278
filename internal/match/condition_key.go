package match

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// APIKeys is the condition that the API key is one of these, or has one of these digests,
// as "sha256:" and 64 hexadecimal digits. Only digests are kept.
type APIKeys []string

func (keys APIKeys) addTo(c *compilation) error {
	digests, err := parseAPIKeys(keys)
	if err != nil || len(digests) == 0 {
		return err
	}
	c.apiKeys = make(map[digest]struct{}, len(digests))
	values := make([]string, len(digests))
	for i, d := range digests {
		c.apiKeys[d] = struct{}{}
		values[i] = string(d[:])
	}
	c.file(newChoice(anchorID{kind: byAPIKey}, values))
	return nil
}

func (c *conditions) hasAPIKey(q *query) bool {
	if q.req.APIKey == "" {
		return false
	}
	_, known := c.apiKeys[q.keyDigest()]
	return known
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
