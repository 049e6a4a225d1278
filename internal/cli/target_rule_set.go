package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
)

// ruleSetHelp is the help of an optional --rule-set.
const ruleSetHelp = "the rule set (default: ratelimit.default-rule-set-id)"

const noRuleSets = "there are no rule sets: create one with fluxgate rules apply -f FILE"

// defaultRuleSet is the configured default, or the only rule set if there is no
// default or the caller may not read it.
func defaultRuleSet(ctx context.Context, operator admin.Operator) (string, error) {
	who, err := operator.Whoami(ctx)
	if err != nil {
		return "", err
	}
	id := who.DefaultRuleSet
	if len(who.RuleSets) > 0 && !slices.Contains(who.RuleSets, id) {
		id = ""
	}
	if id != "" {
		heads, err := operator.Revisions(ctx, []string{id})
		if head, known := heads[id]; err != nil || known && !head.Deleted {
			return id, err
		}
	}
	const most = 10
	found, err := operator.List(ctx, "", most+1)
	if err != nil {
		return "", err
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].RuleSetID
	}
	if len(ids) > most {
		ids[most] = "and more, see fluxgate rules list"
	}
	switch list := strings.Join(ids, ", "); {
	case len(ids) == 0:
		return "", errors.New(noRuleSets)
	case id != "":
		return "", usage("the default rule set %s does not exist: choose one with --rule-set: %s", id, list)
	case len(ids) > 1:
		return "", usage("there are several rule sets: choose one with --rule-set: %s", list)
	}
	return ids[0], nil
}
