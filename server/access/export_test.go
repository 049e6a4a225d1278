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

// The bounds of a guard with an issuer.
const (
	AskEvery  = fetchEvery
	AskBurst  = fetchBurst
	KeysFresh = keysFresh
	KeysGood  = keysGood
	MaxToken  = maxToken
)
