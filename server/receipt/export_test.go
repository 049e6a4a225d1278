package receipt

import (
	"context"
	"time"

	"github.com/fluxgate/fluxgate"
)

// Remembered is how many receipts a ledger remembers.
func Remembered(m *Memory) int { return len(m.spent) }

// Encode returns a payload, of the id 0 and now.
func Encode(r *fluxgate.Receipt) []byte { return encode(ID{}, time.Now(), r) }

// Decode reads a payload.
func Decode(b []byte) (*fluxgate.Receipt, error) {
	_, _, r, err := decode(b)
	return r, err
}

// Redeem is RedeemFor a caller that may use all rule sets.
func (i *Issuer) Redeem(ctx context.Context, token string) (*fluxgate.Receipt, error) {
	return i.RedeemFor(ctx, token, func(string) bool { return true })
}
