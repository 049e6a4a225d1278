package fluxgate

// plan is a rule set as one engine uses it: with the store's salt in its keys
// and the fallback's share in its bands.
type plan struct {
	set   *RuleSet
	rules []plannedRule // as set.active
}

type plannedRule struct {
	prefix keyPrefix
	local  []ExactBand
	// everyone is the key of a GLOBAL rule for all callers that no user's
	// function names, hashed once instead of on every request, and nil for
	// other rules.
	everyone *KeyID
}

// key is the key of a request under the rule r, as [keyer.key] makes it.
func (p *plannedRule) key(k *keyer, r *compiledRule, req *Request) (id KeyID, ok bool, err error) {
	if p.everyone != nil && k.identity == nil {
		return *p.everyone, true, nil
	}
	return k.key(r, &p.prefix, req)
}

func newPlan(e *Engine, set *RuleSet) *plan {
	p := &plan{set: set, rules: make([]plannedRule, len(set.active))}
	salt := e.store.Salt()
	for i := range set.active {
		r := &set.active[i]
		p.rules[i].prefix = newKeyPrefix(salt, set.id, r.ID)
		if r.Scope == ScopeGlobal {
			// Such a key takes nothing from the request.
			id, _, _ := new(keyer).key(r, &p.rules[i].prefix, &Request{})
			p.rules[i].everyone = &id
		}
		if e.fallback == nil {
			continue
		}
		for position, b := range r.Bands {
			share := shareOf(b, e.share)
			exact, err := share.Exact(position)
			for err != nil && share.RefillTokens > 1 {
				share.RefillTokens /= 2 // rather too slow than not exact
				exact, err = share.Exact(position)
			}
			if err != nil {
				exact = r.bands[position]
			}
			p.rules[i].local = append(p.rules[i].local, exact)
		}
	}
	return p
}

// planOf is the plan of a rule set, made when the engine first sees it. It is
// kept with the rule set, and goes with it.
func (e *Engine) planOf(set *RuleSet) *plan {
	if known, ok := set.plans.Load(e); ok {
		return known.(*plan)
	}
	known, _ := set.plans.LoadOrStore(e, newPlan(e, set))
	return known.(*plan)
}
