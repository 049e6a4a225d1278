package fluxgate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// RequestLimit is the id of the rule that is made of a [Request.Limit]. No rule of a rule
// set can have it.
const RequestLimit = "(request)"

// demandLimit adds the demand of a request that has its own limit. It counts by the whole
// descriptor and the unit of the limit: limits a second and a day are different ones, while
// another number for the same unit is a change of the limit. Quotas count refused hits, as
// envoyproxy/ratelimit does.
func (e *Engine) demandLimit(ctx context.Context, req *Request, set *Compiled, v *evaluation, p *part) error {
	if req.Limit.Capacity < 1 {
		p.decide(Decision{Reason: ReasonLimited, RuleID: RequestLimit})
		return nil
	}
	r, err := e.ownRule(set, *req.Limit)
	if err != nil {
		return fmt.Errorf("%w: the limit of the request: %w", store.ErrDemand, err)
	}
	p.from = len(v.demands)
	if err := e.demandOf(ctx, r, req, v, p); err != nil {
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
