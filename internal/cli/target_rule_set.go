package cli

import (
	"context"
	"slices"

	"github.com/fluxgate/fluxgate/admin"
)

// ruleSetHelp is the help of an optional --rule-set.
const ruleSetHelp = "the rule set (default: ratelimit.default-rule-set-id)"

// defaultRuleSet is the configured default, or the only rule set that the caller may read.
func defaultRuleSet(ctx context.Context, operator admin.Operator) (string, error) {
	who, err := operator.Whoami(ctx)
	if err != nil {
		return "", err
	}
	switch id := who.DefaultRuleSet; {
	case id != "" && (len(who.RuleSets) == 0 || slices.Contains(who.RuleSets, id)):
		return id, nil
	case len(who.RuleSets) == 1:
		return who.RuleSets[0], nil
	}
	return "", usage("choose a rule set with --rule-set: see fluxgate rules list")
}
