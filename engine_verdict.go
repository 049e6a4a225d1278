package fluxgate

import (
	"time"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Verdict is whether one rule applies to a request and, if not, why.
type Verdict struct {
	// Rule must not be changed.
	Rule *rules.Rule
	// Applies is whether the rule takes part in the decision.
	Applies bool
	// Why is why the rule does not apply. It is empty if the rule applies.
	Why Why
	// Detail is the name of the header or attribute as the rule spells it, the key
	// of the first entry of the rule's descriptor that is missing or differs, the id of the rule
	// that came first in the group or ended the evaluation, or when the rule expired. It never
	// holds a value that the caller sent.
	Detail string

	// Key names the bucket set that the request counts in under the rule,
	// whether it applies or not. It is zero if there is no bucket: the rule is
	// disabled or has no limits, it rejects a request without identity, or the
	// function of [WithIdentity] failed.
	Key store.Key
	// Identity names the values of the request that Key is made of, as rules spell them:
	// ip, userId, apiKey, method, path, header:NAME, attr:NAME, descriptor, descriptor:KEY,
	// or [IdentityResolved]. It is empty if all callers share a bucket. It is ip for a rule
	// that counts by address because an identity is missing.
	Identity []string
	// Missing are the parts of the key of the rule that are not in the request.
	Missing []string
	// Override is the override that applies to the caller, nil if there is none.
	Override *OverrideStatus
	// Cost is the cost of the request under the rule, in the measure of the rule.
	Cost int64
	// FromMemory describes which answers for Key may come from the memory of this process,
	// and why others may not. It is empty if the store decides every request: see
	// [store.Store].
	FromMemory string
	// EndNeeded means that the rule has a limit on concurrent requests that is not enforced for
	// requests with EndUnknown.
	EndNeeded bool
}

// IdentityResolved is the identity that the function of [WithIdentity] returned.
const IdentityResolved = "resolved"

// Why is why a rule does not apply to a request: one of the constants, or the first of its
// own conditions that does not hold, such as path, excluded-path, header or api-key. With
// WhyGroup and WhyEnded all conditions hold.
type Why string

// The reasons besides the conditions of a rule.
const (
	// WhyDisabled means that the rule is disabled.
	WhyDisabled Why = "disabled"
	// WhyExpired means that the moment of its until has passed.
	WhyExpired Why = "expired"
	// WhyGroup means that another rule of its group came first.
	WhyGroup Why = "group"
	// WhyEnded means that a rule with the action allow or deny decided the request before.
	WhyEnded Why = "ended"
	// WhyReading means that a rule with the action allow matches only some readings of
	// the path. A request is exempt only if all readings are exempt.
	WhyReading Why = "reading"
)

// verdicts are the verdicts on all rules of a set, in the order they are
// evaluated.
func (e *Engine) verdicts(set rulesAt, req *Request) []Verdict {
	asked := req.matching(set.now)
	found, list := set.matcher.Explain(&asked), set.keyedBy(e.salt)
	verdicts := make([]Verdict, set.Len())
	next := 0 // index of the next enabled rule
	for i := range set.Len() {
		v := &verdicts[i]
		v.Rule = set.At(i)
		if v.Rule.Disabled {
			v.Why = WhyDisabled
			continue
		}
		r, f := &list[next], &found.Rules[next]
		next++
		if set.ended(v.Rule) {
			v.Why, v.Detail = WhyExpired, v.Rule.Until.Format(time.RFC3339)
			continue
		}
		v.Applies, v.Why, v.Detail = f.Applies(), Why(f.Obstacle), f.Name
		if f.By >= 0 {
			v.Detail = set.active[f.By].ID
		}
		if v.Applies && !found.Final && !r.shadow && r.Action == rules.ActionAllow {
			v.Applies, v.Why = false, WhyReading
		}
		if r.Limits() {
			v.EndNeeded = r.slots && !e.holdUnended
			v.Identity, v.Missing = e.keyer.identify(r.compiledRule, req)
			v.Key, _ = e.keyOf(r, req)
			if v.Key == (store.Key{}) {
				v.Identity = nil
			} else {
				v.Override = e.overrideStatus(r, v.Key.ID, req)
				r = e.overridden(r, v.Key.ID, req)
				v.Cost, _ = r.costOf(req, r.bandsNow(e.store))
				v.FromMemory = e.fromMemory(r)
			}
		}
	}
	return verdicts
}

// fromMemory says which answers of a rule may come from memory.
func (e *Engine) fromMemory(r *keyedRule) string {
	d := e.newDemand(r, store.KeyID{})
	d.Cost = 1
	if e.maxWait > 0 && e.policyOf(r) == rules.WaitForRefill {
		d.MaxWait = e.maxWait
	}
	return e.store.FromMemory(&d)
}

// keyOf returns the key of a request under a limiting rule. It is zero if the
// identity is missing and the rule refuses that.
func (e *Engine) keyOf(r *keyedRule, req *Request) (store.Key, error) {
	id, ok, err := r.key(&e.keyer, req)
	if err != nil || !ok {
		return store.Key{}, err
	}
	return store.Key{RuleSet: r.RuleSetID, Rule: r.ID, ID: id}, nil
}

// identify names the parts of a request's key under a rule, as [keyer.key]
// encodes it, and the parts that the request does not have.
func (k *keyer) identify(r *compiledRule, req *Request) (present, missing []string) {
	if k.identity != nil {
		if resolved, err := k.resolve(r.Rule, req); err == nil && resolved != "" {
			return []string{IdentityResolved}, nil
		}
	}
	for i, f := range r.fields {
		if f.Kind == keyfield.Global {
			continue
		}
		name := f.String()
		if len(r.KeyFields) > 0 {
			name = r.KeyFields[i]
		}
		if _, there := k.appendField(nil, f, req); there {
			present = append(present, name)
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 && r.byAddress && req.IP.IsValid() {
		present = append(present, "ip")
	}
	return present, missing
}
