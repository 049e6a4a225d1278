package httplimit

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/fluxgate/fluxgate"
)

// ErrNoAdmission is returned for a context that no middleware has made.
var ErrNoAdmission = errors.New("the request did not pass a limiter")

// settleTimeout bounds settling, which does not end with the request.
const settleTimeout = time.Second

// Admission is a request's passage through one middleware. A handler finds it
// in the request's context.
type Admission struct {
	parent   context.Context
	limiter  fluxgate.Limiter
	ruleSet  string
	decision fluxgate.Decision
}

// FromContext is the admission by the middleware closest to the handler that
// has decided the request.
func FromContext(ctx context.Context) (*Admission, bool) {
	a, ok := ctx.Value(admissionKey{}).(*Admission)
	return a, ok
}

// All are the admissions of a request that passed several middlewares, the
// closest to the handler first.
func All(ctx context.Context) iter.Seq[*Admission] {
	return func(yield func(*Admission) bool) {
		for a, ok := FromContext(ctx); ok && yield(a); a, ok = FromContext(a.parent) {
		}
	}
}

// Settle is [Admission.Settle] of the admission that [FromContext] finds. If
// there is none the error is ErrNoAdmission, and nothing is to be settled.
func Settle(ctx context.Context, actual int64) (fluxgate.Settlement, error) {
	a, ok := FromContext(ctx)
	if !ok {
		return fluxgate.Settlement{}, ErrNoAdmission
	}
	return a.Settle(ctx, actual)
}

// Decision is why the request passed. It is not to be changed.
func (a *Admission) Decision() *fluxgate.Decision { return &a.decision }

// RuleSet is the id of the rule set that was asked for: empty for the
// limiter's own.
func (a *Admission) RuleSet() string { return a.ruleSet }

// Settle corrects what was taken for the request to the cost that is known
// now: the difference is given back, or charged. It can be done once; after
// that the error is fluxgate.ErrSettled. Where nothing was taken, because no
// rule limits the request, it does nothing.
//
// A client that has gone has used what it has used: settling takes the values
// of ctx and not its end, and at most a second.
func (a *Admission) Settle(ctx context.Context, actual int64) (fluxgate.Settlement, error) {
	receipt := a.decision.Receipt()
	if receipt == nil {
		return fluxgate.Settlement{}, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return a.limiter.Settle(ctx, receipt, actual)
}

type admissionKey struct{}

// passage is the context of an admitted request: one allocation is both.
type passage struct {
	context.Context
	admission Admission
}

func newPassage(ctx context.Context, limiter fluxgate.Limiter, ruleSet string, d fluxgate.Decision) *passage {
	return &passage{ctx, Admission{parent: ctx, limiter: limiter, ruleSet: ruleSet, decision: d}}
}

func (p *passage) Value(key any) any {
	if key == (admissionKey{}) {
		return &p.admission
	}
	return p.Context.Value(key)
}
