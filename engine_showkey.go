package fluxgate

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/store"
)

// ErrKey is wrapped by errors of [Engine.ParseKey].
var ErrKey = errors.New("not the key of a bucket")

// sealLength is how many bytes of a shown key bind it to its rule.
const sealLength = 8

// ShownKeyLength is how many hexadecimal digits a shown key has.
const ShownKeyLength = 2 * (len(store.KeyID{}) + sealLength)

// ShowKey returns the key of one bucket as text that [Engine.ParseKey] reads:
// its id, and a seal that only the store's salt can produce. It is empty for a
// key that names no bucket.
func (e *Engine) ShowKey(k store.Key) string {
	if k.ID == (store.KeyID{}) {
		return ""
	}
	return hex.EncodeToString(append(k.ID[:], e.seal(k)...))
}

// ParseKey reads a key that [Engine.ShowKey] has written for a rule of a rule
// set. For the key of a bucket of another rule the error wraps [ErrKey]: the id
// alone would reach buckets of any rule.
func (e *Engine) ParseKey(ruleSet, rule, shown string) (store.Key, error) {
	k := store.Key{RuleSet: ruleSet, Rule: rule}
	raw, err := hex.DecodeString(shown)
	if err == nil && len(shown) == ShownKeyLength {
		k.ID = store.KeyID(raw[:len(k.ID)])
		if subtle.ConstantTimeCompare(raw[len(k.ID):], e.seal(k)) == 1 {
			return k, nil
		}
	}
	return store.Key{}, fmt.Errorf("%w of rule %s in rule set %s", ErrKey, printable.Quote(rule), printable.Quote(ruleSet))
}

// seal binds the id of a bucket to its rule.
func (e *Engine) seal(k store.Key) []byte {
	prefix := newKeyPrefix(e.salt, k.RuleSet, k.Rule)
	b := append([]byte("fluxgate shown key 1"), prefix[:]...)
	sum := sha256.Sum256(append(b, k.ID[:]...))
	return sum[:sealLength]
}
