package fluxgate

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// plan is what an engine computes once for a rule set: one entry for each
// active rule, with the store's salt in its keys. It does not keep the rule set
// in memory.
type plan []plannedRule

type plannedRule struct {
	prefix keyPrefix
	// local are the bands in the fallback, made when they are first needed and
	// when the share has changed.
	local atomic.Pointer[localBands]
	// everyone is the key of a GLOBAL rule for all callers that [WithIdentity]
	// does not name, hashed once instead of on every request, and nil for other
	// rules.
	everyone *KeyID
}

// of returns what was computed for a rule of an evaluation.
func (p plan) of(r *compiledRule) *plannedRule {
	if r.own != nil {
		return r.own
	}
	return &p[r.index]
}

// localBands are the bands of a rule at a share.
type localBands struct {
	share float64
	of    *ExactBand // the first band that they are a share of
	bands []ExactBand
}

// localBands returns the bands of the rule r at a share of its capacities and
// rates.
func (p *plannedRule) localBands(r *compiledRule, share float64) []ExactBand {
	known, now := p.local.Load(), r.bandsNow()
	if known == nil || known.share != share || known.of != &now[0] {
		known = &localBands{share, &now[0], bandsAt(r, now, share)}
		p.local.Store(known)
	}
	return known.bands
}

func bandsAt(r *compiledRule, now []ExactBand, share float64) []ExactBand {
	bands := make([]ExactBand, len(now))
	for position, b := range r.Bands {
		part := shareOf(b, share)
		exact, err := r.exact(part, position)
		for err != nil && part.RefillTokens > 1 {
			part.RefillTokens /= 2 // a slower rate that is exact
			exact, err = r.exact(part, position)
		}
		if err != nil {
			exact = now[position]
		}
		exact.Edges = now[position].Edges
		bands[position] = exact
	}
	return bands
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
