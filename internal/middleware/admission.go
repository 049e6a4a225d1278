package middleware

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// ErrNoAdmission is returned for a context that is not of a middleware.
var ErrNoAdmission = errors.New("the request did not pass a limiter")

// settleTimeout bounds settling, which does not end with the request.
const settleTimeout = time.Second

// Admission is the decision of one middleware to allow a request. It is in the
// context of the request.
type Admission struct {
	parent   context.Context
	limiter  fluxgate.Limiter
	ruleSet  string
	decision fluxgate.Decision
}

// FromContext returns the admission of the innermost middleware that has decided
// the request.
func FromContext(ctx context.Context) (*Admission, bool) {
	a, ok := ctx.Value(admissionKey{}).(*Admission)
	return a, ok
}

// All returns the admissions of all middlewares, the innermost first.
func All(ctx context.Context) iter.Seq[*Admission] {
	return func(yield func(*Admission) bool) {
		for a, ok := FromContext(ctx); ok && yield(a); a, ok = FromContext(a.parent) {
		}
	}
}

// Settle is [Admission.Settle] of the admission that [FromContext] finds. If
// there is none the error is ErrNoAdmission.
func Settle(ctx context.Context, actual int64) (store.Settlement, error) {
	a, ok := FromContext(ctx)
	if !ok {
		return store.Settlement{}, ErrNoAdmission
	}
	return a.Settle(ctx, actual)
}

// SettleUsage is [Admission.SettleUsage] of the admission that [FromContext] finds.
func SettleUsage(ctx context.Context, usage *fluxgate.Usage) (map[string]store.Settlement, error) {
	a, ok := FromContext(ctx)
	if !ok {
		return nil, ErrNoAdmission
	}
	return a.SettleUsage(ctx, usage)
}

// Decision returns the decision. It must not be changed.
func (a *Admission) Decision() *fluxgate.Decision { return &a.decision }

// RuleSet returns the id of the rule set. It is empty for the default of the limiter.
func (a *Admission) RuleSet() string { return a.ruleSet }

// Settle corrects the tokens taken for the request to its actual cost, under rules
// that count requests: the difference is given back or charged. It works once. After that
// the error is fluxgate.ErrSettled. If nothing was taken, it does nothing.
//
// Settling does not end with ctx, since the client may have disconnected. It takes at
// most a second.
func (a *Admission) Settle(ctx context.Context, actual int64) (store.Settlement, error) {
	receipt := a.decision.Receipt()
	if receipt == nil {
		return store.Settlement{}, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return a.limiter.Settle(ctx, receipt, actual)
}

// SettleUsage is Settle for all rules, with the usage of the request. It returns
// the settlements by measure.
func (a *Admission) SettleUsage(ctx context.Context, usage *fluxgate.Usage) (map[string]store.Settlement, error) {
	receipt := a.decision.Receipt()
	if receipt == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return a.limiter.SettleUsage(ctx, receipt, usage)
}

type admissionKey struct{}

// passage is the context of an admitted request and its admission, in one
// allocation.
type passage struct {
	context.Context
	admission Admission
}

// WithAdmission returns a context with the admission of an allowed request.
func (g *Gate[R]) WithAdmission(ctx context.Context, ruleSet string, d fluxgate.Decision) context.Context {
	return &passage{ctx, Admission{parent: ctx, limiter: g.Limiter, ruleSet: ruleSet, decision: d}}
}

func (p *passage) Value(key any) any {
	if key == (admissionKey{}) {
		return &p.admission
	}
	return p.Context.Value(key)
}
