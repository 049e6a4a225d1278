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

// known are the hashes of tokens that are no secret: the empty one, words of examples, and the
// hashes in the documentation.
var known = func() map[[sha256.Size]byte]bool {
	all := map[[sha256.Size]byte]bool{{}: true}
	words := []string{"", "foo", "bar", "baz", "test", "token", "password", "admin", "example", "hello", "change-me", "changeme"}
	for _, word := range words {
		all[sha256.Sum256([]byte(word))] = true
	}
	return all
}()

// loadTokens reads the tokens of the configuration.
func loadTokens(auth *config.Auth) (tokens, error) {
	listed, err := auth.AllTokens()
	if err != nil {
		return nil, err
	}
	accepted := make(tokens, 0, len(listed))
	for _, t := range listed {
		raw, err := hex.DecodeString(string(t.SHA256))
		if err != nil || len(raw) != sha256.Size || known[[sha256.Size]byte(raw)] {
			return nil, fmt.Errorf("token %q: the hash is not the SHA-256 of a secret token", t.Name)
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
