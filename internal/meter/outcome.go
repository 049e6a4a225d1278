package meter

import (
	"context"
	"errors"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// Outcome is the result of a request: the reason of its decision, or why it has no decision.
type Outcome uint8

// outcomeNames are the labels of the outcomes. Those from no-rule-set on do not say that the
// rule set exists.
var outcomeNames = [...]string{
	"allowed", string(fluxgate.ReasonLimited), string(fluxgate.ReasonCostTooHigh), string(fluxgate.ReasonDenied),
	string(fluxgate.ReasonExempt), string(fluxgate.ReasonNoRule), string(fluxgate.ReasonBadPath),
	string(fluxgate.ReasonTooManyRules), string(fluxgate.ReasonMissingIdentity), string(fluxgate.ReasonStoreFailure),
	Other, string(fluxgate.ReasonNoRuleSet), "invalid", "canceled", "error",
}

const (
	outcomeAllowed Outcome = iota
	outcomeLimited
	outcomeStoreFailure Outcome = iota + 7
	outcomeOther
	outcomeNoRuleSet // no decision, or one of missing-rule-behavior
	outcomeInvalid   // no decision: the request is invalid
	outcomeCanceled  // no decision: the caller has gone
	// OutcomeError is a request without a decision because of an internal error.
	OutcomeError
)

// String returns the label of an outcome.
func (o Outcome) String() string { return outcomeNames[o] }

// RuleSetExists reports whether the outcome implies that the rule set of the request exists.
// If not, the caller may have made up its name.
func (o Outcome) RuleSetExists() bool { return o < outcomeNoRuleSet }

// Decided reports whether there is a decision, or an unknown rule set is why there is none.
func (o Outcome) Decided() bool { return o <= outcomeNoRuleSet }

// OutcomeOf returns the outcome of a request.
func OutcomeOf(d *fluxgate.Decision, err error) Outcome {
	switch {
	case err == nil && d.Reason == fluxgate.ReasonOK:
		return outcomeAllowed
	case err == nil:
		if i := slices.Index(outcomeNames[:outcomeInvalid], string(d.Reason)); i > 0 {
			return Outcome(i)
		}
		return outcomeOther
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return outcomeCanceled
	case errors.Is(err, fluxgate.ErrNoRuleSet):
		return outcomeNoRuleSet
	case errors.Is(err, fluxgate.ErrCost):
		return outcomeInvalid
	}
	return OutcomeError
}

// noSource is the source of a decision without a band, behind those of stores.
const noSource = store.FromFallback + 1

func sourceOf(d *fluxgate.Decision) store.Source {
	if d.Band == "" {
		return noSource
	}
	return min(d.Source, noSource)
}

// SourceOf returns where the binding answer came from, as a label.
func SourceOf(d *fluxgate.Decision) string { return sourceName(sourceOf(d)) }

func sourceName(s store.Source) string {
	if s == noSource {
		return "none"
	}
	return s.String()
}
