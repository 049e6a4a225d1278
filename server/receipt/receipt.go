// Package receipt issues and redeems receipts of a server: signed, with an
// expiry, for one use. A forged receipt would refill buckets.
package receipt

import (
	"cmp"
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

// The reasons to reject a receipt. All of them wrap ErrRefused.
var (
	ErrRefused = errors.New("the receipt is not accepted")
	ErrForged  = fmt.Errorf("%w: it was issued with another secret, or changed", ErrRefused)
	ErrExpired = fmt.Errorf("%w: it has expired", ErrRefused)
	ErrSpent   = fmt.Errorf("%w: it was settled before", ErrRefused)
	ErrForeign = fmt.Errorf("%w: it is of a rule set that the caller may not use", ErrRefused)
)

// ID names a receipt.
type ID [16]byte

// Ledger remembers which receipts were spent.
type Ledger interface {
	// Spend marks a receipt of a rule set as spent by a call, for at least as long as it is
	// valid. It reports whether no other call has spent it. After an error the receipt may be
	// spent: the same call can be made again.
	Spend(ctx context.Context, id ID, ruleSet, call string, valid time.Duration) (bool, error)
}

// Config configures an [Issuer].
type Config struct {
	// Secret signs receipts. All servers that share a store must have the same
	// secret. Empty means a random secret: only this process accepts its receipts,
	// until it ends.
	Secret secret.Bytes
	// TTL is how long a receipt is valid. 0 means 1h.
	TTL time.Duration
	// Ledger remembers spent receipts. Nil means in memory, for one process or
	// a random secret.
	Ledger Ledger
	// Now returns the time. Nil means time.Now.
	Now func() time.Time
}

// Issuer issues and redeems receipts.
type Issuer struct {
	macs   sync.Pool // of hash.Hash, with the key in it
	ttl    time.Duration
	ledger Ledger
	now    func() time.Time
	alone  bool // the secret is random
}

// Alone reports whether the secret is random: this issuer accepts no receipts of other servers.
func (i *Issuer) Alone() bool { return i.alone }

// NewIssuer returns an issuer.
func NewIssuer(config Config) (*Issuer, error) {
	o := &Issuer{ttl: config.TTL, ledger: config.Ledger, now: config.Now}
	o.ttl = cmp.Or(o.ttl, time.Hour)
	if o.ttl < time.Second || o.ttl > maxTTL {
		return nil, fmt.Errorf("the TTL of receipts must be 1s to %v, not %v", maxTTL, o.ttl)
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
		o.alone = true
	case len(seed) < 16:
		return nil, errors.New("the secret of receipts must have at least 16 bytes")
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
	// maxToken is the longest token in bytes: more than 64 rules of 16 bands.
	maxToken = 256 << 10

	macLength = sha256.Size
)

// Issue returns the token of a receipt. It is empty if nothing was taken. A receipt of
// another server keeps its token, which only that server redeems.
func (i *Issuer) Issue(r *fluxgate.Receipt) string {
	if r == nil {
		return ""
	}
	if len(r.Takes) == 0 {
		return r.Token
	}
	var id ID
	_, _ = rand.Read(id[:]) // never fails
	payload := encode(id, i.now(), r)
	return base64.RawURLEncoding.EncodeToString(i.sign(payload, payload))
}

// sign appends the signature of a payload to b.
func (i *Issuer) sign(b, payload []byte) []byte {
	mac := i.macs.Get().(hash.Hash)
	defer i.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write(payload) // never fails
	return mac.Sum(b)
}

// Renew returns the receipt of a token and a new token with another lifetime. It does not
// spend the token. Only one of both tokens can be spent. The errors are those of Claim.
func (i *Issuer) Renew(token string, allowed func(ruleSet string) bool) (*fluxgate.Receipt, string, error) {
	id, receipt, err := i.open(token, allowed)
	if err != nil {
		return nil, "", err
	}
	payload := encode(id, i.now(), receipt)
	return receipt, base64.RawURLEncoding.EncodeToString(i.sign(payload, payload)), nil
}

// open returns the receipt of a token that is valid and allowed.
func (i *Issuer) open(token string, allowed func(ruleSet string) bool) (id ID, receipt *fluxgate.Receipt, err error) {
	if len(token) > maxToken {
		return id, nil, ErrForged
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= macLength {
		return id, nil, ErrForged
	}
	payload, mac := raw[:len(raw)-macLength], raw[len(raw)-macLength:]
	if !hmac.Equal(mac, i.sign(nil, payload)) {
		return id, nil, ErrForged
	}
	id, issued, receipt, err := decode(payload)
	if err != nil {
		return id, nil, fmt.Errorf("%w (%w)", ErrForged, err) // of another version
	}
	age := i.now().Sub(issued)
	if age > i.ttl || age < -skew {
		return id, nil, ErrExpired
	}
	for n := range receipt.Takes {
		if !allowed(receipt.Takes[n].Key.RuleSet) {
			return id, nil, ErrForeign
		}
	}
	return id, receipt, nil
}

// Claim is a receipt that is valid, before it is spent.
type Claim struct {
	ID      ID
	RuleSet string
	Receipt *fluxgate.Receipt
	// Call names this claim for the ledger. A claim of the same token with the same name is
	// the same one.
	Call string
}

// Claim returns the receipt of a token for a caller that may use the allowed rule sets. For
// other rule sets the error is [ErrForeign]. Claim does not ask the ledger.
func (i *Issuer) Claim(token string, allowed func(ruleSet string) bool) (*Claim, error) {
	id, receipt, err := i.open(token, allowed)
	if err != nil {
		return nil, err
	}
	return &Claim{id, receipt.Takes[0].Key.RuleSet, receipt, rand.Text()}, nil
}

// Spend spends the receipt of a claim. It is the only one that may settle it. The error is
// [ErrSpent], [ErrFull] if the receipt can only release its slots, or one of the ledger: then
// the claim may be spent, and Spend can be called again.
func (i *Issuer) Spend(ctx context.Context, c *Claim) error {
	fresh, err := i.ledger.Spend(ctx, c.ID, c.RuleSet, c.Call, i.ttl+skew)
	if err != nil {
		return fmt.Errorf("looking up a receipt: %w", err)
	}
	if !fresh {
		return ErrSpent
	}
	return nil
}
