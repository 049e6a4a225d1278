package middleware

import (
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/amount"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Detail says why a request is rejected, and what to do.
func Detail(d *fluxgate.Decision) string {
	switch d.Reason {
	case fluxgate.ReasonDenied:
		return "A rule rejects this request."
	case fluxgate.ReasonBadPath:
		return "The path is too long or can be read in more than one way: " +
			"send it without #, backslash, %2F, dot segments and empty segments."
	case fluxgate.ReasonTooManyRules:
		return "More rules apply to this request than can be counted."
	case fluxgate.ReasonMissingIdentity:
		return "The request has no identity, and a rule requires one."
	case fluxgate.ReasonNoRule:
		return "No rule allows this request."
	case fluxgate.ReasonNoRuleSet:
		return "There is no rule set for this request."
	case fluxgate.ReasonStoreFailure:
		return "The request cannot be counted now."
	}
	return exceeded(d)
}

// The details of failures without a decision.
const (
	RepeatedHeaderDetail = "A header that names the caller was sent more than once."
	DeadlineDetail       = "The deadline of the request passed before it was decided."
)

// exceeded describes which policy a request exceeds.
func exceeded(d *fluxgate.Decision) string {
	if d.Band == "" {
		return ""
	}
	cost, measure, unit := int64(1), "", ""
	for b := range d.Bands() {
		if b.Rule.ID == d.RuleID && !b.Shadow() {
			cost, measure = b.Cost, b.Rule.Measure()
		}
	}
	if measure == rules.MeasureTokens {
		unit = " tokens"
	}
	name := PolicyName(d.RuleID, d.Band)
	costs, limit := amount.Ceil(cost, measure), amount.Floor(d.Limit, measure)+unit
	if d.Reason == fluxgate.ReasonCostTooHigh {
		return fmt.Sprintf("The request costs %s, but %s holds at most %s: it is never allowed.", costs, name, limit)
	}
	state := fmt.Sprintf("has %s of %s left", amount.Floor(d.Remaining, measure), limit)
	if d.Owed > 0 {
		state = "owes " + owed(d.Owed, measure)
	}
	detail := fmt.Sprintf("%s %s, and the request costs %s.", name, state, costs)
	if seconds := CeilSeconds(d.RetryAfter); seconds > 0 {
		detail += fmt.Sprintf(" Try again in %ds.", seconds)
	}
	return detail
}

func owed(n int64, measure string) string {
	switch text := amount.Ceil(n, measure); {
	case amount.IsMoney(measure):
		return text
	case n == 1:
		return "1 token"
	default:
		return text + " tokens"
	}
}

// Violated returns the policies that a request exceeds, the binding one first.
func Violated(d *fluxgate.Decision) []string {
	if d.Band == "" {
		return nil
	}
	names := []string{PolicyName(d.RuleID, d.Band)}
	for b := range d.Bands() {
		exceeds := b.Status == store.Rejected && b.Wait > 0 ||
			b.Status == store.TooCostly && b.Cost > b.Limit
		if b.Shadow() || !exceeds {
			continue
		}
		if name := PolicyName(b.Rule.ID, b.Band.Name()); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) == maxEntries {
			break
		}
	}
	return names
}
