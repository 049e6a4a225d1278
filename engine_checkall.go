package fluxgate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// CheckAll decides requests that belong together, such as the descriptors of one call of
// Envoy. Either all of them take tokens, or none does. Costs of requests in the same bucket
// add up. CheckAll returns the decision for all of them, which has the receipt, and one
// decision for each request by its own rules. The latter may be allowed although nothing
// was taken, because another request was rejected. They have no receipt; of a single request
// both decisions are the same.
//
// All requests must name the same rule set. A request with Peek takes nothing and must
// have a Cost of 0. [WithKnownRuleSets] does not apply: the removal of a domain of Envoy
// must not stop its traffic.
func (e *Engine) CheckAll(ctx context.Context, reqs []Request) (Decision, []Decision, error) {
	if len(reqs) == 0 {
		return Decision{}, nil, fmt.Errorf("%w: there is no request", store.ErrDemand)
	}
	each := make([]Decision, len(reqs))
	d, err := e.checkAll(ctx, reqs, each)
	if e.observer != nil {
		seen, taking := d, max(0, slices.IndexFunc(reqs, func(r Request) bool { return !r.Peek }))
		e.observer.Decided(ctx, &reqs[taking], &seen, err)
	}
	return d, each, err
}

func (e *Engine) checkAll(ctx context.Context, reqs []Request, each []Decision) (Decision, error) {
	t := &together{v: newEvaluation(len(reqs))}
	if t.parts, t.places = t.one[:], t.place[:0]; len(reqs) > 1 {
		t.parts = make([]part, len(reqs))
	}
	t.v.peek = true
	for i := range reqs {
		if err := e.prepare(ctx, &reqs[i]); err != nil {
			return Decision{}, err
		}
		switch {
		case e.ruleSetIDOf(&reqs[i]) != e.ruleSetIDOf(&reqs[0]):
			return Decision{}, fmt.Errorf("%w: the requests are for different rule sets", store.ErrDemand)
		case reqs[i].Peek && reqs[i].Cost != 0:
			return Decision{}, fmt.Errorf("%w: a request that takes nothing has a cost", store.ErrDemand)
		}
		t.v.peek = t.v.peek && reqs[i].Peek
	}
	set := e.rules.RuleSet(ctx, e.ruleSetIDOf(&reqs[0])).at(e.store) // once: it may change at any moment
	if set.Compiled == nil {
		for i := range each {
			each[i] = e.noRuleSetDecision() // also with WithKnownRuleSets
		}
		return each[0], nil
	}
	replaced := set.replacedBy(reqs)
	for i := range reqs {
		t.parts[i].replaced = replaced
		if err := e.addPart(ctx, &reqs[i], set, t, &t.parts[i]); err != nil {
			return Decision{}, err
		}
	}
	if e.observer != nil && len(reqs) > 1 {
		t.noteRequests(reqs)
	}
	d, err := e.takeTogether(ctx, t)
	if err != nil {
		return Decision{}, err
	}
	for i := range t.parts {
		each[i] = e.decisionOf(t, &t.parts[i], &d)
	}
	return d, nil
}

// replacedBy returns the ids of the rules that rules of some requests replace.
func (s rulesAt) replacedBy(reqs []Request) (replaced []string) {
	for i := range reqs {
		if !s.replaces || len(reqs) == 1 || reqs[i].Limit != nil {
			continue
		}
		for _, k := range s.match(&reqs[i], nil).Rules {
			replaced = append(replaced, s.active[k].Replaces...)
		}
	}
	return replaced
}

// withoutReplaced removes rules that are replaced. One that exempts requests stays.
func (c *Compiled) withoutReplaced(indices []int32, replaced []string) []int32 {
	return slices.DeleteFunc(indices, func(k int32) bool {
		return c.active[k].Action != rules.ActionAllow && slices.Contains(replaced, c.active[k].ID)
	})
}

// together is an evaluation of several requests.
type together struct {
	v     *evaluation
	parts []part
	// places are the demands of each part, by their positions in v: a part has those
	// from its from up to its to.
	places []int
	one    [1]part // room for the usual number of requests
	place  [1]int
}

// addPart adds the demands of a request. A request that is decided without the store adds
// none.
func (e *Engine) addPart(ctx context.Context, req *Request, set rulesAt, t *together, p *part) error {
	var err error
	var space [store.MaxMatches + 1]int32
	before, places := len(t.v.demands), len(t.places)
	if req.Limit != nil {
		err = e.demandLimit(ctx, req, set, t.v, p)
	} else if found := e.findRules(req, set, p, space[:0]); !p.decided {
		err = e.addDemands(ctx, req, set, found, t.v, p)
	}
	if err != nil {
		return err
	}
	if !p.decided {
		if t.join(p); len(t.v.demands) > store.MaxMatches {
			p.decide(Decision{Reason: ReasonTooManyRules})
		}
	}
	if p.decided {
		t.v.demands, t.v.rules, t.places = t.v.demands[:before], t.v.rules[:before], t.places[:places]
	}
	return nil
}

// join merges each demand of the last part into an earlier one with the same key, since no
// two demands may have one.
func (t *together) join(p *part) {
	v, n, first := t.v, p.from, len(t.places)
	for i := p.from; i < p.to; i++ {
		at := slices.IndexFunc(v.demands[:p.from], func(d store.Demand) bool { return d.Key.ID == v.demands[i].Key.ID })
		if at >= 0 {
			cost := &v.demands[at].Cost
			*cost += min(v.demands[i].Cost, store.MaxCost-*cost)
			if v.rules[i].ID == RequestLimit && v.demands[i].Bands[0].Capacity < v.demands[at].Bands[0].Capacity {
				v.demands[at].Bands, v.rules[at] = v.demands[i].Bands, v.rules[i] // the lower of two limits
			}
		} else {
			at = n
			v.demands[n], v.rules[n] = v.demands[i], v.rules[i]
			n++
		}
		t.places = append(t.places, at)
	}
	v.demands, v.rules = v.demands[:n], v.rules[:n]
	p.from, p.to = first, len(t.places)
}

// noteRequests notes whose identities the demands are of, for the observer. Of requests
// that share a bucket it is the last.
func (t *together) noteRequests(reqs []Request) {
	t.v.reqs = make([]*Request, len(t.v.demands))
	for i := range t.parts {
		if p := &t.parts[i]; !p.decided {
			for _, at := range t.places[p.from:p.to] {
				t.v.reqs[at] = &reqs[i]
			}
		}
	}
}

// takeTogether takes for all parts. If one is refused without the store, only what refused
// requests are debited is taken.
func (e *Engine) takeTogether(ctx context.Context, t *together) (Decision, error) {
	var all applyResult
	var refused *part
	others := slices.ContainsFunc(t.v.demands, func(d store.Demand) bool { return d.Alternative })
	for i := range t.parts {
		p := &t.parts[i]
		all.enforced, all.waits = all.enforced || p.enforced, all.waits || p.waits
		// A denied alternative does not decide while the store is asked for others.
		if p.decided && !p.decision.Allowed && (!p.alternative || !others) && refused == nil {
			refused = p
		}
	}
	if refused != nil {
		return refused.decision, e.takeDebits(ctx, t)
	}
	if len(t.v.demands) == 0 {
		return t.parts[0].decision, nil
	}
	return e.take(ctx, t.v, all)
}

// takeDebits debits what has been used by requests that are refused without the store, and
// counts the hits that are over. The other demands are not asked for.
func (e *Engine) takeDebits(ctx context.Context, t *together) error {
	v := t.v
	v.outcome.Prepare(v.demands)
	used := &evaluation{warns: v.warns}
	var places []int
	for i := range v.demands {
		v.outcome.Results[i].Status = store.NotAsked
		if d := v.demands[i]; d.Overdraft || d.CountsRefused() {
			d.DebitOnly = true
			used.rules, used.demands = append(used.rules, v.rules[i]), append(used.demands, d)
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return nil
	}
	if _, err := e.take(ctx, used, applyResult{enforced: true}); err != nil {
		return err
	}
	for k, i := range places {
		v.outcome.Results[i] = used.outcome.Results[k]
	}
	return nil
}

// decisionOf is the decision for one part by its own rules. all is the decision for all
// parts.
func (e *Engine) decisionOf(t *together, p *part, all *Decision) Decision {
	switch {
	case p.decided:
		return p.decision
	case len(t.parts) == 1:
		return *all
	}
	own := newEvaluation(p.to - p.from)
	own.peek = true // the receipt is that of all parts
	for _, at := range t.places[p.from:p.to] {
		rule, result := t.v.rules[at], t.v.outcome.Results[at]
		if !all.Allowed && all.Reason == ReasonStoreFailure && all.RuleID == rule.ID && result.Status == store.Unavailable {
			return Decision{Reason: ReasonStoreFailure, RuleID: rule.ID, Degraded: true}
		}
		result.Granted = 0
		own.rules, own.demands = append(own.rules, rule), append(own.demands, t.v.demands[at])
		own.outcome.Results = append(own.outcome.Results, result)
	}
	d := Decision{evaluation: own, Degraded: all.Degraded}
	for range own.rejecting() {
		own.bindRejected(&d)
		return d
	}
	if !p.enforced {
		d = e.unlimited(p.exemptedBy)
		d.evaluation = own
		return d
	}
	d.Allowed, d.Reason = true, ReasonOK
	if own.bindAllowed(&d); d.RuleID == "" && !all.Degraded {
		d.Reason = ReasonOK // not asked, because another part is refused
	}
	return d
}

// RequestLimit is the id of the rule of a [Request.Limit]. No rule of a rule set can have
// this id.
const RequestLimit = "(request)"

// demandLimit adds the demand of a request that has its own limit. It counts by the whole
// descriptor and the unit of the limit: limits a second and a day are different ones, while
// another number for the same unit is a change of the limit. Quotas count refused hits, as
// envoyproxy/ratelimit does.
func (e *Engine) demandLimit(ctx context.Context, req *Request, set rulesAt, v *evaluation, p *part) error {
	if req.Limit.Capacity < 1 {
		p.decide(Decision{Reason: ReasonLimited, RuleID: RequestLimit})
		return nil
	}
	r, err := e.ownRule(set.Compiled, *req.Limit)
	if err != nil {
		return fmt.Errorf("%w: the limit of the request: %w", store.ErrDemand, err)
	}
	p.from = len(v.demands)
	if err := e.addDemand(ctx, r, req, v, p); err != nil {
		return err
	}
	p.to = len(v.demands)
	return nil
}

// ownRule is a rule of one band that is in no rule set. Its buckets are those of the rule
// set.
func (e *Engine) ownRule(set *Compiled, band rules.Band) (*keyedRule, error) {
	rule := &rules.Rule{
		ID: RequestLimit, RuleSetID: set.ID(), Scope: rules.ScopeComposite, KeyFields: []string{"descriptor"},
		Bands: []rules.Band{band}, CountRefused: band.Kind == rules.Quota,
	}
	compiled, err := compileRule(rule)
	if err != nil {
		return nil, err
	}
	unit := fmt.Sprintf("%s %s %s %d", RequestLimit, cmp.Or(band.Kind, rules.TokenBucket), band.Period, band.Refill)
	return &keyedRule{compiledRule: &compiled, prefix: newKeyPrefix(e.salt, set.ID(), unit)}, nil
}
