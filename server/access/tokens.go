package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"

	"github.com/fluxgate/fluxgate/server/config"
)

// tokens are the accepted bearer tokens.
type tokens []token

// token is the hash of a token and the identity of its owner.
type token struct {
	sum [sha256.Size]byte
	who *Identity
}

// loadTokens reads the tokens of the configuration.
func loadTokens(auth *config.Auth) (tokens, error) {
	listed, err := auth.AllTokens()
	if err != nil {
		return nil, err
	}
	accepted := make(tokens, 0, len(listed))
	for _, t := range listed {
		raw, err := hex.DecodeString(string(t.SHA256))
		if err != nil || len(raw) != sha256.Size || [sha256.Size]byte(raw) == sha256.Sum256(nil) {
			return nil, fmt.Errorf("token %q: the hash is not the SHA-256 of a token", t.Name)
		}
		accepted = append(accepted, token{[sha256.Size]byte(raw), newIdentity("token:"+t.Name, t.Roles, t.RuleSets)})
	}
	return accepted, nil
}

// find returns the identity for a hash, or nil. It compares all, so that the time
// it takes does not depend on the hash.
func (t tokens) find(sum [sha256.Size]byte) *Identity {
	var found *Identity
	for i := range t {
		if subtle.ConstantTimeCompare(sum[:], t[i].sum[:]) == 1 {
			found = t[i].who
		}
	}
	return found
}
