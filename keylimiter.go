package fluxgate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/unsent"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var (
	// ErrLimited is returned by [KeyLimiter.Wait] if the tokens are not
	// available before the context ends or within MaxWait. Nothing was taken.
	ErrLimited = errors.New("the limit does not allow it in time")
	// ErrUndecided is wrapped by errors of a [KeyLimiter] whose store could not
	// decide. The caller must choose whether to continue.
	ErrUndecided = errors.New("the store could not decide")
)

// keyLimiterSet takes the place of a rule set in the keys of key limiters. No rule
// set can have this id.
const keyLimiterSet = "key limiter"

// KeyLimiter limits how often something may happen for a key, such as logins of
// a user. It is for programs with a key and a limit, and no rules. Its buckets are
// as exact as those of an [Engine], and with Redis they are shared.
type KeyLimiter struct {
	store  store.Store
	rule   *keyedRule
	unsent *unsent.Queue // settlements that the store did not get
}

// NewKeyLimiter returns a limiter with one or more limits (bands), which all must
// have tokens. The name has 1 to 64 letters, digits, dots, dashes and underscores.
// Limiters with the same name over the same store share their buckets; limiters with
// different names do not. It panics if the name or the bands are invalid, since they
// are constants of the program.
func NewKeyLimiter(buckets store.Store, name string, bands ...rules.Band) *KeyLimiter {
	set := Must(Compile(Must(rules.NewSet(name, rules.Rule{ID: name, Bands: bands}))))
	rule := keyedRule{compiledRule: &set.active[0], prefix: newKeyPrefix(buckets.Salt(), keyLimiterSet, name)}
	return &KeyLimiter{buckets, &rule, unsent.New(buckets.Settle, func(error) {})}
}

// Allow takes one token for a key if one is available. An error means that
// there is no decision.
func (l *KeyLimiter) Allow(ctx context.Context, key string) (Decision, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN takes n tokens for a key, or none if fewer are available.
func (l *KeyLimiter) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	return l.decide(ctx, key, store.Demand{Cost: n}, false)
}

// Peek returns the remaining tokens of a key, and takes nothing.
func (l *KeyLimiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.decide(ctx, key, store.Demand{}, true)
}

// Wait takes one token for a key and returns when it is available. Calls get tokens
// in their order, in all processes that share the store. If the token will not be
// available before ctx ends, Wait returns [ErrLimited] at once. If ctx is canceled
// during the wait, Wait gives the token back as far as possible.
func (l *KeyLimiter) Wait(ctx context.Context, key string) error {
	longest := store.MaxWait
	if deadline, ok := ctx.Deadline(); ok {
		longest = max(0, min(longest, time.Until(deadline)))
	}
	d, err := l.decide(ctx, key, store.Demand{Cost: 1, MaxWait: longest}, false)
	switch {
	case err != nil:
		return err
	case !d.Allowed:
		return ErrLimited
	case d.Wait == 0:
		return nil
	}
	if err := background.Sleep(ctx, d.Wait); err != nil {
		_, failed := l.Settle(ctx, d.Receipt(), 0)
		return errors.Join(err, failed)
	}
	return nil
}

// Settle corrects the tokens taken to the actual cost, as [Engine.Settle] does. What the store does
// not get while it is unavailable is sent later.
func (l *KeyLimiter) Settle(ctx context.Context, receipt *Receipt, actual int64) (store.Settlement, error) {
	if receipt == nil {
		return store.Settlement{}, nil
	}
	costs := receipt.Takes.Same(actual)
	if err := receipt.check(costs); err != nil {
		return store.Settlement{}, err
	}
	if !receipt.Spend() {
		return store.Settlement{}, ErrSettled
	}
	ctx, cancel := outlasting(ctx)
	defer cancel()
	settled, err := l.store.Settle(ctx, receipt.Takes, costs)
	if lost := l.unsent.AddUnsent(receipt.Takes, costs, settled); lost != nil {
		err = errors.Join(err, lost)
	}
	return store.MergeSettlements(settled), err
}

// decide fills in the key and the bands of the demand.
func (l *KeyLimiter) decide(ctx context.Context, key string, d store.Demand, peek bool) (Decision, error) {
	var space [256]byte
	identity, ok := appendIdentity(append(space[:0], l.rule.prefix[:]...), keyfield.Resolved, key)
	if !ok {
		return Decision{}, fmt.Errorf("limiter %s: %w: the key is empty", l.rule.ID, store.ErrDemand)
	}
	sum := sha256.Sum256(identity)
	d.Key, d.Bands = store.Key{RuleSet: keyLimiterSet, Rule: l.rule.ID, ID: store.KeyID(sum[:len(store.KeyID{})])}, l.rule.bandsNow(l.store)
	if l.rule.slots {
		d.Holder = newHolder()
	}
	v := newEvaluation(1)
	v.peek, v.rules, v.demands = peek, append(v.rules, appliedRule{keyedRule: l.rule}), append(v.demands, d)
	if err := v.decideIn(ctx, l.store); err != nil {
		if ctx.Err() != nil || errors.Is(err, store.ErrDemand) {
			return Decision{}, fmt.Errorf("limiter %s: %w", l.rule.ID, err)
		}
		return Decision{}, fmt.Errorf("limiter %s: %w: %w", l.rule.ID, ErrUndecided, err)
	}
	if v.outcome.Admission == store.Undecided {
		return Decision{}, fmt.Errorf("limiter %s: %w", l.rule.ID, ErrUndecided)
	}
	return v.decision(), nil
}
