package fluxgate

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/fluxgate/fluxgate/internal/match"
)

// ErrNoRuleSet is wrapped by errors about a request whose rule set is not
// known.
var ErrNoRuleSet = errors.New("there is no such rule set")

// Explanation is why a request is decided as it is.
type Explanation struct {
	// RuleSet is what the request is decided by.
	RuleSet *RuleSet
	// Readings are the ways in which routers may read the path, the clean one
	// first. An ordinary path has one.
	Readings []string
	// Rules has a verdict on every rule, in the order they are evaluated.
	Rules []Verdict
	// Decision is what Check would decide. What remains is told as it is,
	// with nothing taken.
	Decision Decision
}

// Effective says of every rule of a request's rule set, disabled ones
// included, whether it applies and, if not, why. It asks no store. The
// function of [WithAmend] is called on a copy: the request stays as it is.
func (e *Engine) Effective(ctx context.Context, req *Request) (*RuleSet, []Verdict, error) {
	asked, set, err := e.look(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	return set, e.verdicts(set, asked), nil
}

// Explain is [Engine.Effective], and what [Engine.Check] would decide at this
// moment by the same rule set. It takes nothing, holds nobody, takes no place
// of those who wait, and no observer hears of a decision. A store that fails is
// dealt with as the rules say, and the decision is degraded.
//
// Where there is an error the explanation has what could be told without it:
// the decision for a rule set that does not exist.
func (e *Engine) Explain(ctx context.Context, req *Request) (Explanation, error) {
	asked, set, err := e.look(ctx, req)
	if errors.Is(err, ErrNoRuleSet) {
		return Explanation{Decision: e.noRuleSet()}, err
	}
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{RuleSet: set, Readings: match.Readings(asked.Path), Rules: e.verdicts(set, asked)}
	asked.Cost, asked.Peek = asked.cost(), true // in this order: a peek costs nothing unless it says so
	x.Decision, err = e.decide(ctx, asked, set)
	return x, err
}

// look is what comes before the rules: a copy of the request with what the
// user's function adds to it, and the rule set.
func (e *Engine) look(ctx context.Context, req *Request) (*Request, *RuleSet, error) {
	asked := *req
	asked.Headers, asked.Attributes = cloneValues(req.Headers), maps.Clone(req.Attributes)
	set, err := e.ruleSetOf(ctx, &asked)
	switch {
	case err != nil:
		return nil, nil, err
	case set == nil && ctx.Err() != nil:
		return nil, nil, ctx.Err() // it may only not have been loaded in time
	case set == nil:
		return nil, nil, fmt.Errorf("%w: %s", ErrNoRuleSet, quote(e.ruleSetIDOf(&asked)))
	}
	return &asked, set, nil
}
