package fluxgate

import (
	"context"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/failover"
)

// Overrides returns those of [WithOverrides], or nil.
func (e *Engine) Overrides() *Overrides { return e.overrides }

// overrideOf returns the override of a bucket. The request is nil if it is not known.
func (e *Engine) overrideOf(r *keyedRule, key store.KeyID, req *Request) (o override, ok bool) {
	if e.overrides == nil {
		return o, false
	}
	if e.keyer.identity != nil {
		req = nil // an API key does not name the caller
	}
	o, ok = e.overrides.find(r, key, req)
	return o, ok && (o.until == 0 || o.until > e.store.Now().UnixMicro())
}

// overridden returns the rule with the numbers that it has for a bucket.
func (e *Engine) overridden(r *keyedRule, key store.KeyID, req *Request) *keyedRule {
	o, ok := e.overrideOf(r, key, req)
	if !ok {
		return r
	}
	return o.overridden(r)
}

// overridden returns a rule with these numbers.
func (n *overrideNumbers) overridden(r *keyedRule) *keyedRule {
	known := n.last.Load()
	if known == nil || known.of != r {
		known = &overriddenRule{r, r.with(n)}
		n.last.Store(known)
	}
	return known.rule
}

// with returns the rule with other numbers, or itself if they do not fit.
func (r *keyedRule) with(n *overrideNumbers) *keyedRule {
	numbers, err := r.Overridden(n.times, n.bands)
	if err != nil {
		return r // see Problems
	}
	rule := *r.compiledRule
	if rule.use(numbers) != nil {
		return r
	}
	rule.shown = slices.Clone(numbers)
	for i := range rule.shown {
		rule.shown[i].Label = rule.names[i] // also of a band whose name is made of its numbers
	}
	return &keyedRule{compiledRule: &rule, prefix: r.prefix, everyone: r.everyone}
}

// bandsOfTake returns the bands that a bucket has in the store now: see [failover.Config].
func (e *Engine) bandsOfTake(ctx context.Context, key store.Key, taken []store.ExactBand, local failover.LocalBands) []store.ExactBand {
	set := e.rules.RuleSet(ctx, key.RuleSet).at(e.store)
	if set.Compiled == nil {
		return nil
	}
	i, err := set.find(key.Rule)
	if err != nil {
		return nil
	}
	r := e.ofTake(&set.keyedBy(e.salt)[i], key.ID, taken, local)
	if r == nil {
		return nil
	}
	return slices.Clone(r.bandsNow(e.store))
}

// OverrideStatus is the override that applies to a caller under a rule.
type OverrideStatus struct {
	// Times or Bands are its numbers.
	Times rules.Times
	Bands []rules.Band
	// Until is when it ends. Zero means never.
	Until time.Time
}

// overrideStatus returns nil if no override applies.
func (e *Engine) overrideStatus(r *keyedRule, key store.KeyID, req *Request) *OverrideStatus {
	o, ok := e.overrideOf(r, key, req)
	if !ok || e.overridden(r, key, req) == r {
		return nil
	}
	status := &OverrideStatus{Times: o.times, Bands: o.bands}
	if o.until != 0 {
		status.Until = time.UnixMicro(o.until)
	}
	return status
}
