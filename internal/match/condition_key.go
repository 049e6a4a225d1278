package match

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/fluxgate/fluxgate/internal/keyfield"
)

// APIKeys is the condition that the API key is one of these, or has one of these digests,
// as "sha256:" and 64 hexadecimal digits. Only digests are kept.
type APIKeys []string

func (keys APIKeys) addTo(c *compilation) {
	digests := parseAPIKeys(keys)
	if len(digests) == 0 {
		return
	}
	c.apiKeys = make(map[digest]struct{}, len(digests))
	values := make([]string, len(digests))
	for i, d := range digests {
		c.apiKeys[d] = struct{}{}
		values[i] = string(d[:])
	}
	c.file(newChoice(anchorID{kind: byAPIKey}, values))
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

// parseAPIKeys returns the digests of a rule's keys.
func parseAPIKeys(keys []string) (digests []digest) {
	for _, key := range keys {
		encoded, isDigest := strings.CutPrefix(key, keyfield.DigestPrefix)
		if !isDigest {
			digests = append(digests, sha256.Sum256([]byte(key)))
			continue
		}
		var d digest
		_, _ = hex.Decode(d[:], []byte(encoded)) // of a valid rule
		digests = append(digests, d)
	}
	return digests
}
