package fluxgate

import "sync"

// plan is a rule set as one engine uses it: with the store's salt in its keys
// and the fallback's share in its bands.
type plan struct {
	set   *RuleSet
	rules []plannedRule // as set.active
}

type plannedRule struct {
	prefix keyPrefix
	local  []ExactBand
	// everyone is the key of a rule that does not tell callers apart, hashed
	// once instead of on every request, and nil for others.
	everyone *KeyID
}

// key is the key of a request under the rule r, as [keyer.key] makes it.
func (p *plannedRule) key(k *keyer, r *compiledRule, req *Request) (id KeyID, ok bool, err error) {
	if p.everyone != nil {
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
		if e.keyer.identity == nil && r.Scope == ScopeGlobal {
			// Such a key takes nothing from the request.
			id, _, _ := e.keyer.key(r, &p.rules[i].prefix, &Request{})
			p.rules[i].everyone = &id
		}
		if e.fallback == nil {
			continue
		}
		for position, b := range r.Bands {
			exact, err := shareOf(b, e.share).Exact(position)
			if err != nil {
				exact = r.bands[position] // the share is not exact: the whole is
			}
			p.rules[i].local = append(p.rules[i].local, exact)
		}
	}
	return p
}

// maxPlans bounds how many rule sets an engine remembers the plan of.
const maxPlans = 1_024

// plans holds the plan of every rule set in use, by its id.
type plans struct {
	byID sync.Map // string → *plan

	mu    sync.Mutex
	count int
}

// of is the plan of a rule set, made when the rule set is first seen.
func (p *plans) of(e *Engine, set *RuleSet) *plan {
	if known, ok := p.byID.Load(set.id); ok {
		if plan := known.(*plan); plan.set == set {
			return plan
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := newPlan(e, set)
	if _, replaced := p.byID.Swap(set.id, fresh); !replaced {
		p.count++
	}
	if p.count > maxPlans {
		p.byID.Clear()
		p.count = 0
	}
	return fresh
}
