package fluxgate

import (
	"runtime"
	"sync"
	"weak"
)

// plan is what an engine computes once for a rule set: one entry for each
// active rule, with the store's salt in its keys and the fallback's share in
// its bands. It does not keep the rule set in memory.
type plan []plannedRule

type plannedRule struct {
	prefix keyPrefix
	local  []ExactBand
	// everyone is the key of a GLOBAL rule for all callers that [WithIdentity]
	// does not name, hashed once instead of on every request, and nil for other
	// rules.
	everyone *KeyID
}

// key returns the key of a request under the rule r, as [keyer.key] does.
func (p *plannedRule) key(k *keyer, r *compiledRule, req *Request) (id KeyID, ok bool, err error) {
	if p.everyone != nil && k.identity == nil {
		return *p.everyone, true, nil
	}
	return k.key(r, &p.prefix, req)
}

func newPlan(e *Engine, set *RuleSet) plan {
	p := make(plan, len(set.active))
	salt := e.store.Salt()
	for i := range set.active {
		r := &set.active[i]
		p[i].prefix = newKeyPrefix(salt, set.id, r.ID)
		if r.Scope == ScopeGlobal {
			// Such a key does not depend on the request.
			id, _, _ := new(keyer).key(r, &p[i].prefix, &Request{})
			p[i].everyone = &id
		}
		if e.fallback == nil {
			continue
		}
		for position, b := range r.Bands {
			share := shareOf(b, e.share)
			exact, err := share.Exact(position)
			for err != nil && share.RefillTokens > 1 {
				share.RefillTokens /= 2 // a slower rate that is exact
				exact, err = share.Exact(position)
			}
			if err != nil {
				exact = r.bands[position]
			}
			p[i].local = append(p[i].local, exact)
		}
	}
	return p
}

// sharedPlan is a plan that is made once, however many requests need it at the
// same time: that of 10,000 rules takes tens of milliseconds.
type sharedPlan struct {
	once sync.Once
	plan plan
}

// planOf returns the plan of a rule set, made at its first request and dropped
// when the rule set is no longer in memory.
func (e *Engine) planOf(set *RuleSet) plan {
	known, ok := e.plans.Load(set.token)
	if !ok {
		if known, ok = e.plans.LoadOrStore(set.token, new(sharedPlan)); !ok {
			e.dropPlanWith(set)
		}
	}
	p := known.(*sharedPlan)
	p.once.Do(func() { p.plan = newPlan(e, set) })
	return p.plan
}

// dropPlanWith drops the plan of a rule set when that is no longer in memory. The
// engine is referred to weakly: it refers to its rule sets, and a strong pointer
// in a cleanup would keep both in memory for good.
func (e *Engine) dropPlanWith(set *RuleSet) {
	engine := weak.Make(e)
	runtime.AddCleanup(set, func(t *token) {
		if e := engine.Value(); e != nil {
			e.plans.Delete(t)
		}
	}, set.token)
}
