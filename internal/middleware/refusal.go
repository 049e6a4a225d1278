package middleware

import (
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate"
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
	cost := int64(1)
	for b := range d.Bands() {
		if b.Rule.ID == d.RuleID && !b.Shadow() {
			cost = b.Cost
		}
	}
	if d.Reason == fluxgate.ReasonCostTooHigh {
		return fmt.Sprintf("The request costs %d, but %s.%s holds at most %d: it is never allowed.", cost, d.RuleID, d.Band, d.Limit)
	}
	detail := fmt.Sprintf("%s.%s has %d of %d left, and the request costs %d.", d.RuleID, d.Band, d.Remaining, d.Limit, cost)
	if d.Owed > 0 {
		detail = fmt.Sprintf("%s.%s owes %s, and the request costs %d.", d.RuleID, d.Band, tokens(d.Owed), cost)
	}
	if seconds := CeilSeconds(d.RetryAfter); seconds > 0 {
		detail += fmt.Sprintf(" Try again in %ds.", seconds)
	}
	return detail
}

func tokens(n int64) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", n)
}

// Violated returns the policies that a request exceeds, the binding one first.
func Violated(d *fluxgate.Decision) []string {
	if d.Band == "" {
		return nil
	}
	names := []string{d.RuleID + "." + d.Band}
	for b := range d.Bands() {
		exceeds := b.Status == store.Rejected && b.Wait > 0 ||
			b.Status == store.TooCostly && b.Cost > b.Limit
		if b.Shadow() || !exceeds {
			continue
		}
		if name := b.Rule.ID + "." + b.Band.Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) == maxEntries {
			break
		}
	}
	return names
}
