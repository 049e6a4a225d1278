package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerRules() {
	const all, one = "/v1/rule-sets/{ruleSet}/rules", "/v1/rule-sets/{ruleSet}/rules/{rule}"
	register(a, a.get(all, "list-rules", tagRuleSets, "List the rules of a rule set", http.StatusNotFound), a.listRules)
	register(a, a.get(one, "get-rule", tagRuleSets, "Read a rule", http.StatusNotFound), a.getRule)
	put := a.documented(config.RoleWrite, http.MethodPut, one, "put-rule", "Add or replace a rule")
	put.MaxBodyBytes = maxRule
	alsoCreated(&put)
	register(a, put, a.putRule)
	register(a, a.edit(http.MethodDelete, one, "delete-rule", tagRuleSets, "Delete a rule"), a.deleteRule)
}

// maxRule is the largest rule in bytes: its lists of users and keys may be long.
const maxRule = 2 << 20

// RulePath is a rule in a path.
type RulePath struct {
	RuleSetPath
	Rule string `path:"rule" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"The rule."`
}

type rulesOut struct {
	From
	ETag string `header:"ETag" doc:"The revision, to base a change on."`
	Body struct {
		Revision int64        `json:"revision" doc:"Their revision."`
		Rules    []rules.Rule `json:"rules" nullable:"false" doc:"Rules in the order they are evaluated."`
		Next     int          `json:"next,omitempty" doc:"The value of offset for the next page; absent on the last."`
	} `nameHint:"Rules"`
}

func (a *API) listRules(ctx context.Context, in *struct {
	RuleSetPath
	Page
	Offset int `query:"offset" minimum:"0" doc:"How many to skip."`
}) (*rulesOut, error) {
	v, from, err := a.current(ctx, in.RuleSet)
	if err != nil {
		return nil, err
	}
	out := &rulesOut{From: from, ETag: tag(v.Revision)}
	all := slices.Collect(v.RuleSet.Rules())
	first := min(in.Offset, len(all))
	end := min(len(all)-first, in.Limit) + first
	out.Body.Revision, out.Body.Rules = v.Revision, append([]rules.Rule{}, all[first:end]...)
	if end < len(all) {
		out.Body.Next = end
	}
	return out, nil
}

type ruleOut struct {
	From
	ETag string `header:"ETag" doc:"The revision of its rule set, to base a change on."`
	Body rules.Rule
}

func (a *API) getRule(ctx context.Context, in *RulePath) (*ruleOut, error) {
	v, from, err := a.current(ctx, in.RuleSet)
	if err != nil {
		return nil, err
	}
	rule, ok := v.RuleSet.Rule(in.Rule)
	if !ok {
		return nil, noRule(in.Rule)
	}
	return &ruleOut{From: from, ETag: tag(v.Revision), Body: rule}, nil
}

func noRule(id string) error { return fmt.Errorf("rule %q: %w", id, fluxgate.ErrNoRule) }

func (a *API) putRule(ctx context.Context, in *struct {
	RulePath
	Condition
	Body ruleDocument
}) (*saved, error) {
	added := false
	out, err := a.change(ctx, in.RuleSet, &in.Condition, func(before *rules.Set) (*rules.Set, error) {
		rule, err := parseRule(in.Body, in.RuleSet, in.Rule)
		if err != nil {
			return nil, err
		}
		return edited(before, in.RuleSet, func(all []rules.Rule) ([]rules.Rule, int, error) {
			i := slices.IndexFunc(all, func(r rules.Rule) bool { return r.ID == rule.ID })
			if added = i < 0; added {
				return append(all, rule), len(all), nil
			}
			all[i] = rule
			return all, i, nil
		})
	})
	if out != nil && added {
		out.Status = http.StatusCreated
	}
	return out, err
}

func (a *API) deleteRule(ctx context.Context, in *struct {
	RulePath
	Condition
}) (*saved, error) {
	return a.change(ctx, in.RuleSet, &in.Condition, func(before *rules.Set) (*rules.Set, error) {
		return edited(before, in.RuleSet, func(all []rules.Rule) ([]rules.Rule, int, error) {
			rest := slices.DeleteFunc(slices.Clone(all), func(r rules.Rule) bool { return r.ID == in.Rule })
			if len(rest) == len(all) {
				return nil, 0, noRule(in.Rule)
			}
			return rest, -1, nil
		})
	})
}

// edited returns a rule set with other rules and the same cost tables. edit returns the index of the rule that
// was sent, or -1.
func edited(before *rules.Set, id string, edit func([]rules.Rule) ([]rules.Rule, int, error)) (*rules.Set, error) {
	var all []rules.Rule
	if before != nil {
		all = slices.Collect(before.Rules())
	}
	all, sent, err := edit(all)
	if err != nil {
		return nil, err
	}
	set, err := rules.WithRules(before, id, all...)
	return set, inside(err, sent)
}

// indexOf returns the index of a rule in a rule set, or -1.
func indexOf(set *rules.Set, rule string) int {
	return slices.IndexFunc(slices.Collect(set.Rules()), func(r rules.Rule) bool { return r.ID == rule })
}

// parseRule parses a rule that was sent for a rule set, under an id. It is
// first validated as a rule set of its own, to return all of its problems.
func parseRule(doc ruleDocument, ruleSet, id string) (rules.Rule, error) {
	tree, err := rules.ReadObject(doc)
	var twice *rules.ValidationError
	switch {
	case errors.As(err, &twice):
		twice.RuleSetID = ruleSet
		return rules.Rule{}, twice
	case err != nil:
		return rules.Rule{}, notJSON("a rule", err)
	}
	set, err := rules.DecodeSet(map[string]any{"id": ruleSet, "rules": []any{tree}})
	if err != nil {
		return rules.Rule{}, inside(err, 0)
	}
	var sent rules.Rule
	for rule := range set.Rules() {
		sent = rule
	}
	if sent.ID != id {
		return rules.Rule{}, otherID(ruleSet, id)
	}
	return sent, nil
}

// inside makes the paths of problems relative to the rule at an index, because the
// caller sent only one rule.
func inside(err error, index int) error {
	var invalid *rules.ValidationError
	if errors.As(err, &invalid) {
		for i, p := range invalid.Problems {
			if rule, path := p.Path.Rule(); rule == index {
				invalid.Problems[i].Path = path
			}
		}
	}
	return err
}

// otherID returns the error of a document whose id is not the one in the URL.
func otherID(ruleSet, id string) error {
	return &rules.ValidationError{RuleSetID: ruleSet, Problems: []rules.Problem{
		{Code: rules.CodeInconsistent, Path: rules.Path{"id"}, Message: fmt.Sprintf("must be %q, as in the path", id)},
	}}
}
