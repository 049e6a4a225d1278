package insight

import "github.com/fluxgate/fluxgate/internal/meter"

// View is the part of the numbers that a caller of the admin API may see.
type View struct {
	// All is whether the caller may see all rule sets, and numbers without a rule set.
	All bool
	// RuleSet reports whether the caller may see a rule set.
	RuleSet func(id string) bool
	// Identities reports whether the caller may see the identities of the callers of a rule set.
	Identities func(ruleSet string) bool
}

// Everything is the view of callers that may see all.
func Everything() View {
	all := func(string) bool { return true }
	return View{All: true, RuleSet: all, Identities: all}
}

// rule reports whether the caller may see a rule of a rule set. Rules that are not counted
// separately may be of any.
func (v *View) rule(ruleSet string) bool {
	return v.All || ruleSet != meter.Other && v.RuleSet(ruleSet)
}
