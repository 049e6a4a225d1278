package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/spelling"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

// ruleSetHelp is the help of an optional --rule-set.
const ruleSetHelp = "the rule set (default: ratelimit.default-rule-set-id)"

// ruleSetFlag adds --rule-set. The ids are completed from the target.
func (t *target) ruleSetFlag(cmd *cobra.Command, id *string, help string) {
	cmd.Flags().StringVar(id, "rule-set", "", help)
	_ = cmd.RegisterFlagCompletionFunc("rule-set", t.completeRuleSets) // the flag exists
}

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

// suggestRuleSet adds the id that was probably meant to the error about a rule set that
// never existed.
func suggestRuleSet(ctx context.Context, operator admin.Operator, id string, err error) error {
	if !errors.Is(err, rules.ErrNotFound) {
		return err
	}
	heads, listErr := operator.Revisions(ctx, []string{id})
	if _, known := heads[id]; known || listErr != nil {
		return err
	}
	page, _ := operator.List(ctx, "", rules.MaxPage)
	ids := make([]string, len(page))
	for i := range page {
		ids[i] = page[i].RuleSetID
	}
	if meant := spelling.Nearest(id, ids, nil); meant != "" {
		return fmt.Errorf("%w: did you mean %s?", err, meant)
	}
	return err
}
