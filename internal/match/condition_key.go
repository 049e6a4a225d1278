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
	if digests := parseAPIKeys(keys); len(digests) > 0 {
		c.apiKeys = newValueSet(digests)
		c.file(newChoice(anchorID{kind: byAPIKey}, digests))
	}
}

// parseAPIKeys returns the digests of a rule's keys.
func parseAPIKeys(keys []string) (digests []string) {
	for _, key := range keys {
		sum := sha256.Sum256([]byte(key))
		if encoded, isDigest := strings.CutPrefix(key, keyfield.DigestPrefix); isDigest {
			_, _ = hex.Decode(sum[:], []byte(encoded)) // of a valid rule
		}
		digests = append(digests, string(sum[:]))
	}
	return digests
}
