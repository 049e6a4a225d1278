package telemetry

import (
	"context"
	"errors"

	"github.com/fluxgate/fluxgate"
)

// outcome is what came of a request, as a label says it.
type outcome uint8

const (
	outcomeAllowed outcome = iota
	outcomeLimited
	outcomeCostTooHigh
	outcomeDenied
	outcomeExempt
	outcomeNoRule
	outcomeNoRuleSet
	outcomeBadPath
	outcomeTooManyRules
	outcomeMissingIdentity
	outcomeStoreFailure
	outcomeInvalid  // there is no decision because the request cannot be
	outcomeCanceled // there is none because the caller has gone
	outcomeError    // there is none, and that is not the caller's doing
	outcomeOther    // a reason that is not known here
	outcomes
)

var outcomeNames = [outcomes]string{
	"allowed", "limited", "cost-too-high", "denied", "exempt", "no-rule", "no-rule-set",
	"bad-path", "too-many-rules", "missing-identity", "store-failure", "invalid", "canceled", "error", "other",
}

func (o outcome) String() string { return outcomeNames[o] }

func outcomeOf(d *fluxgate.Decision, err error) outcome {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return outcomeCanceled
	case errors.Is(err, fluxgate.ErrCost):
		return outcomeInvalid
	case err != nil:
		return outcomeError
	}
	switch d.Reason {
	case fluxgate.ReasonOK:
		return outcomeAllowed
	case fluxgate.ReasonLimited:
		return outcomeLimited
	case fluxgate.ReasonCostTooHigh:
		return outcomeCostTooHigh
	case fluxgate.ReasonDenied:
		return outcomeDenied
	case fluxgate.ReasonExempt:
		return outcomeExempt
	case fluxgate.ReasonNoRule:
		return outcomeNoRule
	case fluxgate.ReasonBadPath:
		return outcomeBadPath
	case fluxgate.ReasonTooManyRules:
		return outcomeTooManyRules
	case fluxgate.ReasonNoRuleSet:
		return outcomeNoRuleSet
	case fluxgate.ReasonMissingIdentity:
		return outcomeMissingIdentity
	case fluxgate.ReasonStoreFailure:
		return outcomeStoreFailure
	}
	return outcomeOther
}

// source is where the binding answer came from, as a label says it.
type source uint8

const (
	sourceNone source = iota // no band was asked
	sourceStore
	sourceLease
	sourceNegativeCache
	sourceFallback
	sources
)

var sourceNames = [sources]string{"none", "store", "lease", "negative-cache", "fallback"}

func (s source) String() string { return sourceNames[s] }

func sourceOf(d *fluxgate.Decision) source {
	if d.Band == "" {
		return sourceNone
	}
	switch d.Source {
	case fluxgate.FromStore:
		return sourceStore
	case fluxgate.FromLease:
		return sourceLease
	case fluxgate.FromNegativeCache:
		return sourceNegativeCache
	case fluxgate.FromFallback:
		return sourceFallback
	}
	return sourceNone
}

// ruleSetExists reports whether the rule set that a request names is one of
// ours, by what was decided. If not, its name is the caller's.
func ruleSetExists(o outcome) bool {
	return o != outcomeNoRuleSet && o != outcomeInvalid && o != outcomeCanceled && o != outcomeError
}
