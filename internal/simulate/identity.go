package simulate

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/fluxgate/fluxgate"
)

// maxIdentity is how many bytes of an identity are shown.
const maxIdentity = 96

// identity says in words whose bucket a rule counts a request in. It has no secrets: an API
// key is shown as the beginning of the digest that rules spell, and callers that only
// another secret tells apart by that of their bucket's key.
func (r *replica) identity(of *fluxgate.EvaluatedRule, req *fluxgate.Request) string {
	var space [maxIdentity]byte
	if n := r.engine.WriteIdentity(space[:], of); n > 0 {
		return string(space[:n])
	}
	if req.APIKey != "" {
		sum := sha256.Sum256([]byte(req.APIKey))
		return "API key sha256:" + hex.EncodeToString(sum[:6]) + "…"
	}
	return "key " + of.Key.ID.String()[:12] + "…"
}
