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

// Redeem claims and spends a token, for a caller that may use all rule sets.
func (i *Issuer) Redeem(ctx context.Context, token string) (*fluxgate.Receipt, error) {
	c, err := i.Claim(token, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	if err := i.Spend(ctx, c); err != nil {
		return nil, err
	}
	return c.Receipt, nil
}
