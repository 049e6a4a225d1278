package insight

// View is what a caller of the admin API may see.
type View struct {
	// All is whether it may see all rule sets, and what belongs to none.
	All bool
	// RuleSet reports whether it may see a rule set.
	RuleSet func(id string) bool
	// Identities reports whether it may see the identities of the callers of a rule set.
	Identities func(ruleSet string) bool
}

// rule reports whether the caller may see a rule of a rule set. Rules that are not counted
// separately may be of any.
func (v *View) rule(ruleSet string) bool { return v.All || ruleSet != Other && v.RuleSet(ruleSet) }
