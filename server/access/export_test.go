package access

import "time"

// SetClock gives a guard another clock.
func (g *Guard) SetClock(now func() time.Time) {
	g.now = now
	if g.oidc != nil {
		g.oidc.now = now
	}
}

// SetPatience is how long a guard waits for its issuer.
func (g *Guard) SetPatience(most time.Duration) { g.oidc.keys.timeout = most }

// Cached is how many tokens a guard remembers.
func (g *Guard) Cached() int { return len(g.oidc.accepted.all) }

// The bounds of a guard with an issuer.
const (
	AskEvery  = fetchEvery
	AskBurst  = fetchBurst
	KeysFresh = keysFresh
	KeysGood  = keysGood
	MaxTrust  = maxTrust
	MaxCached = maxCached
	MaxToken  = maxToken
)
