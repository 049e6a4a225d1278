package fluxgate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// ErrNoRuleSet is wrapped by errors about a request whose rule set does not exist.
var ErrNoRuleSet = errors.New("there is no such rule set")

// ErrRulesLoading is wrapped by errors about a request whose rule set is still being loaded,
// or waits until others are loaded.
var ErrRulesLoading = errors.New("the rule set is not loaded yet")

// Explanation is the decision on a request with its reasons.
type Explanation struct {
	// RuleSet is the rule set that decides the request.
	RuleSet *rules.Set
	// Readings are the ways in which routers may read the path, the cleaned path
	// first. An ordinary path has one reading.
	Readings []string
	// Rules has a verdict on every rule, in the order they are evaluated.
	Rules []Verdict
	// Decision is the decision that Check would return. Remaining tokens are those
	// before the take.
	Decision Decision
}

// Effective reports for every rule of the rule set of a request, including disabled
// rules, whether it applies and, if not, why. It does not call the store.
// The function of [WithAmend] is called with a copy of the request.
func (e *Engine) Effective(ctx context.Context, req *Request) (*rules.Set, []Verdict, error) {
	asked, set, err := e.amendedCopy(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	return set.Set, e.verdicts(set, asked), nil
}

// Explain returns the verdicts of [Engine.Effective], and what [Engine.Check]
// would decide now by the same rule set. It takes no tokens, does not wait,
// occupies no wait slot and reports no decision to the observer. If the store
// fails, the failure modes of the rules apply and the decision is degraded.
//
// If the rule set does not exist, Explain returns the explanation with the decision,
// and the error.
func (e *Engine) Explain(ctx context.Context, req *Request) (Explanation, error) {
	asked, set, err := e.amendedCopy(ctx, req)
	if errors.Is(err, ErrNoRuleSet) {
		d, _ := e.decideWithoutRuleSet(e.ruleSetIDOf(asked)) // err is the same
		return Explanation{Decision: d}, err
	}
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{RuleSet: set.Set, Readings: match.Readings(asked.Path), Rules: e.verdicts(set, asked)}
	asked.Cost, asked.Peek = asked.cost(), true // in this order: a peek costs nothing unless it says so
	x.Decision, err = e.decide(ctx, asked, set)
	return x, err
}

// amendedCopy returns an amended copy of the request, also with ErrNoRuleSet, and its rule
// set.
func (e *Engine) amendedCopy(ctx context.Context, req *Request) (*Request, rulesAt, error) {
	asked := *req
	asked.Headers, asked.Attributes, asked.Costs = maps.Clone(req.Headers), maps.Clone(req.Attributes), maps.Clone(req.Costs)
	for name, values := range asked.Headers {
		asked.Headers[name] = slices.Clone(values)
	}
	asked.Descriptor = slices.Clone(req.Descriptor)
	if req.Estimate != nil {
		estimate := *req.Estimate
		asked.Estimate = &estimate
	}
	set, err := e.ruleSetOf(ctx, &asked)
	switch {
	case err != nil:
		return nil, set, err
	case set.Compiled == nil && ctx.Err() != nil:
		return nil, set, ctx.Err() // the rule set may exist and not be loaded yet
	case set.Compiled == nil:
		return &asked, set, fmt.Errorf("%w: %s", ErrNoRuleSet, printable.Quote(e.ruleSetIDOf(&asked)))
	}
	return &asked, set, nil
}
