package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
)

// ruleSetHelp is for commands that do without.
const ruleSetHelp = "the rule set (default: that of requests that name none)"

// whoami is who we are here and what is here, or nothing where we may not ask.
func whoami(ctx context.Context, operator admin.Operator) (*admin.Who, error) {
	who, err := operator.Whoami(ctx)
	var refused *admin.Problem
	if errors.As(err, &refused) && refused.Status == http.StatusForbidden {
		return new(admin.Who), nil
	}
	return who, err
}

// defaultRuleSet is the rule set of requests that name none.
func defaultRuleSet(ctx context.Context, operator admin.Operator) (string, error) {
	who, err := whoami(ctx, operator)
	if err != nil {
		return "", err
	}
	id := who.DefaultRuleSet
	if len(who.RuleSets) > 0 && !slices.Contains(who.RuleSets, id) {
		id = "" // we may not look at it
	}
	if id != "" {
		heads, err := operator.Revisions(ctx, []string{id})
		if head, known := heads[id]; err != nil || known && !head.Deleted {
			return id, err
		}
	}
	return onlyRuleSet(ctx, operator, id)
}

// onlyRuleSet is the rule set that there is if it is just one, and nobody has
// said that it is to be another that is missing.
func onlyRuleSet(ctx context.Context, operator admin.Operator, missing string) (string, error) {
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
		ids[most] = "and others, see fluxgate rules list"
	}
	switch list := strings.Join(ids, ", "); {
	case len(ids) == 0:
		return "", errors.New("there are no rule sets: make one with fluxgate rules apply -f FILE")
	case missing != "":
		return "", usage("there is no rule set %s, which is that of requests that name none: say which with --rule-set: %s", missing, list)
	case len(ids) > 1:
		return "", usage("there are several rule sets: say which with --rule-set: %s", list)
	}
	return ids[0], nil
}
