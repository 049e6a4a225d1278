// Package receipt makes the receipts that a server hands out: signed, so that
// nobody can make one up, dated, and good for one use. A forged receipt would
// be a refill.
package receipt

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/secret"
)

// The ways a receipt can be no good. All of them wrap ErrRefused.
var (
	ErrRefused = errors.New("the receipt is not accepted")
	ErrForged  = fmt.Errorf("%w: it was not made here, or was changed", ErrRefused)
	ErrExpired = fmt.Errorf("%w: it has expired", ErrRefused)
	ErrSpent   = fmt.Errorf("%w: it was settled before", ErrRefused)
	ErrForeign = fmt.Errorf("%w: it is of a rule set that the caller may not use", ErrRefused)
)

// ID names a receipt.
type ID [16]byte

// Ledger remembers which receipts were spent.
type Ledger interface {
	// Spend marks a receipt as spent, for at least as long as it is valid. It
	// reports whether it was not before.
	Spend(ctx context.Context, id ID, valid time.Duration) (bool, error)
}

// Config is how an [Issuer] is made.
type Config struct {
	// Secret signs receipts. All servers that share a store must have the
	// same. Empty means one of our own: then only this process accepts its
	// receipts, and only until it ends.
	Secret secret.Bytes
	// TTL is how long a receipt is good. 0 means 1h.
	TTL time.Duration
	// Ledger remembers what was spent. Nil means in memory: enough for one
	// process, or with a secret of its own.
	Ledger Ledger
	// Now is the time. Nil means the machine's.
	Now func() time.Time
}

// Issuer issues receipts and takes them back.
type Issuer struct {
	macs   sync.Pool // of hash.Hash, with the key in it
	ttl    time.Duration
	ledger Ledger
	now    func() time.Time
}

// NewIssuer makes an issuer.
func NewIssuer(config Config) (*Issuer, error) {
	o := &Issuer{ttl: config.TTL, ledger: config.Ledger, now: config.Now}
	if o.ttl == 0 {
		o.ttl = time.Hour
	}
	if o.ttl < time.Second || o.ttl > maxTTL {
		return nil, fmt.Errorf("a receipt is good for a second to %v, not for %v", maxTTL, o.ttl)
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.ledger == nil {
		o.ledger = NewMemory(o.now)
	}
	seed := []byte(config.Secret)
	switch {
	case len(seed) == 0:
		seed = make([]byte, 32)
		_, _ = rand.Read(seed) // never fails
	case len(seed) < 16:
		return nil, errors.New("the secret of receipts has at least 16 bytes")
	}
	mac := hmac.New(sha256.New, seed)
	_, _ = mac.Write([]byte("fluxgate receipt")) // never fails
	key := mac.Sum(nil)
	o.macs.New = func() any { return hmac.New(sha256.New, key) }
	return o, nil
}

const (
	maxTTL = 30 * 24 * time.Hour
	// skew is how far ahead the clock of another server may be.
	skew = time.Minute
	// maxToken bounds what is looked at: 64 rules of 16 bands are less.
	maxToken = 256 << 10

	macLength = sha256.Size
)

// Issue makes the token of a receipt. It is empty if nothing was taken. The
// receipt of another server has its token already, which only that server
// redeems.
func (o *Issuer) Issue(r *fluxgate.Receipt) string {
	if r == nil {
		return ""
	}
	if len(r.Takes) == 0 {
		return r.Token
	}
	var id ID
	_, _ = rand.Read(id[:]) // never fails
	payload := encode(id, o.now(), r)
	return base64.RawURLEncoding.EncodeToString(o.sign(payload, payload))
}

// sign appends the signature of a payload to b.
func (o *Issuer) sign(b, payload []byte) []byte {
	mac := o.macs.Get().(hash.Hash)
	defer o.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write(payload) // never fails
	return mac.Sum(b)
}

// RedeemFor takes a token back, once, for a caller that may use some rule sets.
// What it returns can be settled. A receipt of another rule set is an
// [ErrForeign], and is not spent.
func (o *Issuer) RedeemFor(ctx context.Context, token string, allowed func(ruleSet string) bool) (*fluxgate.Receipt, error) {
	if len(token) > maxToken {
		return nil, ErrForged
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= macLength {
		return nil, ErrForged
	}
	payload, mac := raw[:len(raw)-macLength], raw[len(raw)-macLength:]
	if !hmac.Equal(mac, o.sign(nil, payload)) {
		return nil, ErrForged
	}
	id, issued, receipt, err := decode(payload)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrForged, err) // of another version
	}
	age := o.now().Sub(issued)
	if age > o.ttl || age < -skew {
		return nil, ErrExpired
	}
	for i := range receipt.Takes {
		if !allowed(receipt.Takes[i].Key.RuleSet) {
			return nil, ErrForeign
		}
	}
	fresh, err := o.ledger.Spend(ctx, id, o.ttl+skew)
	if err != nil {
		return nil, fmt.Errorf("looking up a receipt: %w", err)
	}
	if !fresh {
		return nil, ErrSpent
	}
	return receipt, nil
}
