package telemetry

import (
	"context"
	"errors"
	"slices"

	"github.com/fluxgate/fluxgate"
)

// Values of a label where there is no name to show.
const (
	labelOther   = "other"   // the names with a label of their own are used up
	labelUnknown = "unknown" // the rule set does not exist
	labelNone    = "none"    // no band was asked
)

// Outcomes of requests, beside the reasons of decisions.
const (
	outcomeAllowed  = "allowed"
	outcomeInvalid  = "invalid"  // no decision: the request is invalid
	outcomeCanceled = "canceled" // no decision: the caller has gone
	outcomeError    = "error"    // no decision, and not because of the caller
)

// reasons are those that a label can have.
var reasons = []fluxgate.Reason{
	fluxgate.ReasonLimited, fluxgate.ReasonCostTooHigh, fluxgate.ReasonDenied, fluxgate.ReasonExempt, fluxgate.ReasonNoRule, fluxgate.ReasonNoRuleSet,
	fluxgate.ReasonBadPath, fluxgate.ReasonTooManyRules, fluxgate.ReasonMissingIdentity, fluxgate.ReasonStoreFailure,
}

// outcomeOf returns the outcome of a request as a label value.
func outcomeOf(d *fluxgate.Decision, err error) string {
	switch {
	case err == nil && d.Reason == fluxgate.ReasonOK:
		return outcomeAllowed
	case err == nil && slices.Contains(reasons, d.Reason):
		return string(d.Reason)
	case err == nil:
		return labelOther
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return outcomeCanceled
	case errors.Is(err, fluxgate.ErrNoRuleSet):
		return string(fluxgate.ReasonNoRuleSet)
	case errors.Is(err, fluxgate.ErrCost):
		return outcomeInvalid
	}
	return outcomeError
}

// ruleSetExists reports whether the rule set that a request names exists, as far
// as its outcome says. If not, the name may be made up by the caller.
func ruleSetExists(outcome string) bool {
	return outcome != string(fluxgate.ReasonNoRuleSet) && outcome != outcomeInvalid && outcome != outcomeCanceled && outcome != outcomeError
}

// sourceOf returns where the binding answer came from as a label value.
func sourceOf(d *fluxgate.Decision) string {
	if d.Band == "" {
		return labelNone
	}
	return d.Source.String()
}
