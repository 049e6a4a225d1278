package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"

	"github.com/fluxgate/fluxgate/server/config"
)

// tokens are the bearer tokens that are accepted.
type tokens []token

// token is one of them, as its hash.
type token struct {
	sum [sha256.Size]byte
	who *Identity
}

// loadTokens reads them anew.
func loadTokens(auth *config.Auth) (tokens, error) {
	listed, err := auth.AllTokens()
	if err != nil {
		return nil, err
	}
	accepted := make(tokens, 0, len(listed))
	for _, t := range listed {
		raw, err := hex.DecodeString(string(t.SHA256))
		if err != nil || len(raw) != sha256.Size || [sha256.Size]byte(raw) == sha256.Sum256(nil) {
			return nil, fmt.Errorf("the hash of token %q is not that of a token", t.Name)
		}
		accepted = append(accepted, token{[sha256.Size]byte(raw), newIdentity("token:"+t.Name, t.Roles, t.RuleSets)})
	}
	return accepted, nil
}

// find is whose token has a hash, or nil. It looks at all of them, so that the
// time it takes tells nothing.
func (t tokens) find(sum *[sha256.Size]byte) *Identity {
	var found *Identity
	for i := range t {
		if subtle.ConstantTimeCompare(sum[:], t[i].sum[:]) == 1 {
			found = t[i].who
		}
	}
	return found
}
