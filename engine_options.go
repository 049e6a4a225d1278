package fluxgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Option changes how an [Engine] decides.
type Option func(*Engine) error

// WithRuleSet names the rule set for requests that name none. The default is the
// rule set of [Static], if it has only one. New fails if [Static] or package
// rules/reload does not have the rule set. With other [RuleSets],
// [WithMissingRule] decides requests for an unknown id.
func WithRuleSet(id string) Option {
	return func(e *Engine) error {
		e.ruleSetID = id
		return nil
	}
}

// WithMissingRule sets the decision for a request that no rule limits, or whose
// rule set does not exist. By default it is allowed.
func WithMissingRule(allow bool) Option {
	return func(e *Engine) error {
		e.allowMissing = allow
		return nil
	}
}

// WithKnownRuleSets lets [Engine.Check] return [ErrNoRuleSet] for a request that names a
// rule set that does not exist, other than that of [WithRuleSet]: a wrong name would limit
// nothing. While the rule set is being loaded, Check returns [ErrRulesLoading]. If it cannot
// be loaded, [WithMissingRule] decides. The option needs [RuleSets] that know which ids do
// not exist, such as [Static] and package rules/reload.
func WithKnownRuleSets() Option {
	return func(e *Engine) error {
		e.refuseUnknown = true
		return nil
	}
}

// AmbiguousPaths is the treatment of a request whose path routers may read in more
// than one way.
type AmbiguousPaths string

// The treatments of ambiguous paths.
const (
	// MatchAmbiguous evaluates every reading of the path. The limits of all readings
	// apply. The request is rejected if a rule rejects one reading, and exempt only if
	// all readings are exempt.
	MatchAmbiguous AmbiguousPaths = "match"
	// RefuseAmbiguous rejects the request if its path has an escaped slash, a
	// dot segment or an empty segment before its end. Other differences, such
	// as a trailing slash, are matched as with MatchAmbiguous.
	RefuseAmbiguous AmbiguousPaths = "refuse"
)

// WithAmbiguousPaths sets the treatment of a request whose path routers may read
// in more than one way: whether %2F separates segments, whether dot segments
// are resolved, whether empty segments count. The default is MatchAmbiguous. A
// path with a "#" or a "\" that is not escaped is always rejected.
func WithAmbiguousPaths(p AmbiguousPaths) Option {
	return func(e *Engine) error {
		if p != MatchAmbiguous && p != RefuseAmbiguous {
			return fmt.Errorf("unknown treatment of ambiguous paths %q", p)
		}
		e.refuseAmbiguous = p == RefuseAmbiguous
		return nil
	}
}

// WithPolicy sets the policy of rules without one. The default is Reject.
func WithPolicy(p rules.Policy) Option {
	return func(e *Engine) error {
		if p != rules.Reject && p != rules.WaitForRefill {
			return fmt.Errorf("unknown policy %q", p)
		}
		e.policy = p
		return nil
	}
}

// WithWaiting lets rules with the policy WaitForRefill hold requests. A request
// waits up to longest, which is at most MaxWait. At most atOnce requests wait at a
// time; further requests are decided as with the policy Reject. At most a tenth of
// atOnce, rounded up, wait for one bucket, unless its rule is GLOBAL: see
// [WaitShare]. A request counts as waiting from its decision on. Without this option
// no request waits.
func WithWaiting(longest time.Duration, atOnce int) Option {
	return func(e *Engine) error {
		if longest <= 0 || longest > store.MaxWait {
			return fmt.Errorf("the longest wait must be above 0 and at most %v, not %v", store.MaxWait, longest)
		}
		if atOnce < 1 {
			return errors.New("the number of waiting requests must be at least 1")
		}
		e.maxWait, e.waits.most = longest, atOnce
		return nil
	}
}

// WithOnFailure sets the failure mode of rules without one. The default is FailLocal. If
// processes do not share the store and there is no [WithFallback], it also replaces FailLocal.
func WithOnFailure(f rules.OnFailure) Option {
	return func(e *Engine) error {
		if f != rules.FailLocal && f != rules.FailOpen && f != rules.FailClosed {
			return fmt.Errorf("unknown failure mode %q", f)
		}
		e.onFailure = f
		return nil
	}
}

// WithFallback sets the store that decides FailLocal rules while the shared store
// is unavailable, at a share of their limits: see [WithFallbackShare]. The default is
// a store in memory if processes can share the store of the engine.
//
// The buckets of the fallback begin at the levels that the store last reported. When
// the store is available again, tokens granted by the fallback are debited from it: see
// [Engine.FallbackStats].
func WithFallback(s store.Fallback) Option {
	return func(e *Engine) error {
		if s == nil {
			return errors.New("a fallback needs a store")
		}
		e.fallback = s
		return nil
	}
}

// WithFallbackShare sets the share of each limit that the fallback applies: of its capacity,
// rounded down and at least one token, and of its rate, rounded down if it cannot be exact.
// With ten processes a share of 0.1 keeps the total. The least share is 0.000001. The default is
// one divided by the number of processes that the store has counted.
func WithFallbackShare(share float64) Option {
	return func(e *Engine) error {
		if !(share > 0 && share <= 1) {
			return errors.New("the share of a fallback must be above 0 and at most 1")
		}
		e.share = share
		return nil
	}
}

// WithOverrides applies overrides of rules for single callers.
func WithOverrides(overrides *Overrides) Option {
	return func(e *Engine) error {
		e.overrides = overrides
		return nil
	}
}

// WithObserver reports the engine's events to o.
func WithObserver(o Observer) Option {
	return func(e *Engine) error {
		if e.observer = nil; o != nil {
			e.observer = guarded{o}
		}
		return nil
	}
}

// WithIPv6Prefix sets how many bits of an IPv6 address identify a caller. The
// default is 64, since one customer has a whole network.
func WithIPv6Prefix(bits int) Option {
	return func(e *Engine) error {
		if bits < 1 || bits > 128 {
			return fmt.Errorf("an IPv6 prefix must have 1 to 128 bits, not %d", bits)
		}
		e.keyer.ipv6Bits = bits
		return nil
	}
}

// WithIdentity calls f for the caller's identity. If f returns an empty string,
// the rule's scope is used. f must not change the rule.
func WithIdentity(f func(rule *rules.Rule, req *Request) string) Option {
	return func(e *Engine) error {
		e.keyer.identity = f
		return nil
	}
}

// WithAmend lets f add to every request before it is decided: a tenant from a
// header, a plan from a table. An error ends that request.
func WithAmend(f func(ctx context.Context, req *Request) error) Option {
	return func(e *Engine) error {
		e.amend = f
		return nil
	}
}
