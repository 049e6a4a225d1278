package httplimit

import (
	"context"
	"iter"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/middleware"
	"github.com/fluxgate/fluxgate/store"
)

// ErrNoAdmission is returned for a context without an admission of a middleware.
var ErrNoAdmission = middleware.ErrNoAdmission

// Admission is the decision of one middleware to allow a request. It is in the
// context of the request. Its methods are Decision, RuleSet, Settle and SettleUsage.
type Admission = middleware.Admission

// FromContext returns the admission of the innermost middleware that has decided
// the request.
func FromContext(ctx context.Context) (*Admission, bool) { return middleware.FromContext(ctx) }

// All returns the admissions of all middlewares, the innermost first.
func All(ctx context.Context) iter.Seq[*Admission] { return middleware.All(ctx) }

// Settle corrects the tokens taken for a request to its actual cost, under rules
// that count requests: the difference is given back or charged. It works once.
// After that the error is fluxgate.ErrSettled. If nothing was taken, it does
// nothing. Settling does not end with ctx, since the client may have disconnected. It
// takes at most a second.
//
// It settles the admission that [FromContext] finds. Without an admission the error
// is ErrNoAdmission.
func Settle(ctx context.Context, actual int64) (store.Settlement, error) {
	return middleware.Settle(ctx, actual)
}

// SettleUsage is [Settle] for all rules, with the usage of the request. It returns
// the settlements by measure.
func SettleUsage(ctx context.Context, usage *fluxgate.Usage) (map[string]store.Settlement, error) {
	return middleware.SettleUsage(ctx, usage)
}
