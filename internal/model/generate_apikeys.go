package model

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/rules"
)

// apiKeyOf is the API key of a caller, and digestOf what an override has of it.
func apiKeyOf(caller string) string { return "key-of-" + caller }

func digestOf(caller string) string {
	digest := sha256.Sum256([]byte(apiKeyOf(caller)))
	return keyfield.DigestPrefix + hex.EncodeToString(digest[:])
}

// apiKeys lets the rules of some histories count by API key, and gives some a gateway that settles
// for others and has never seen the callers.
func (g *generator) apiKeys() {
	o := g.identifying
	if o.IntN(100) >= 15 {
		return
	}
	ids := map[string]bool{}
	for _, list := range g.h.Versions {
		for i := range list {
			r := &list[i]
			if _, drawn := ids[r.ID]; !drawn {
				ids[r.ID] = o.chance(80)
			}
			if r.Scope == rules.ScopeUser && ids[r.ID] {
				r.Scope = rules.ScopeAPIKey
			}
		}
	}
	if o.chance(50) {
		g.settleAtFresh(o)
	}
}

// settleAtFresh adds a gateway to which no requests are sent, only settlements.
func (g *generator) settleAtFresh(o *generator) {
	h := g.h
	n := len(h.Gateways)
	fresh := h.Gateways[o.IntN(n)]
	fresh.Waits = false
	h.Gateways = append(h.Gateways, fresh)
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Gateway == All && slices.Contains([]OpKind{OpCheck, OpPeek, OpReset}, op.Kind) {
			op.Gateway = o.IntN(n)
		}
		if op.Kind == OpCheck && op.Actual != Never && o.chance(60) {
			op.SettleAt, op.Renew = n, false
			if o.chance(50) {
				op.Actual, op.ActualTokens = op.Cost*one[int64](o, 0, 2, 20), op.Tokens*one[int64](o, 1, 2, 20)
			}
		}
	}
}
