package adminapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/strictjson"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerRuleSets() {
	const one = "/v1/rule-sets/{ruleSet}"
	register(a, a.get("/v1/rule-sets", "list-rule-sets", tagRuleSets, "List the rule sets"), a.listRuleSets)
	register(a, a.get(one, "get-rule-set", tagRuleSets, "Read a rule set", http.StatusNotFound), a.getRuleSet)
	put := a.documented(config.RoleWrite, http.MethodPut, one, "put-rule-set", "Create or replace a rule set")
	alsoCreated(&put)
	register(a, put, a.putRuleSet)
	register(a, a.edit(http.MethodDelete, one, "delete-rule-set", tagRuleSets,
		"Delete a rule set and its overrides; its history stays"), a.deleteRuleSet)
	answer(a, a.documented(config.RoleRead, http.MethodPost, "/v1/validate", "validate-rule-set",
		"Check a rule set without saving it"), a.validateRuleSet)
}

// changeErrors are the error statuses of a change.
var changeErrors = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusPreconditionRequired,
}

// documented returns an operation with a document in the body, which our own
// decoder reads.
func (a *API) documented(role config.Role, method, path, id, summary string) huma.Operation {
	errors := changeErrors
	if role == config.RoleRead {
		errors = nil
	}
	op := a.operation(role, method, path, id, tagRuleSets, summary, append(errors, http.StatusRequestEntityTooLarge)...)
	op.MaxBodyBytes, op.SkipValidateBody = maxBody, true
	return op
}

func (a *API) listRuleSets(ctx context.Context, in *struct {
	Page
	After string `query:"after" maxLength:"64" doc:"The last rule set of the previous page."`
}) (*ruleSetsOut, error) {
	found, from, err := a.visible(ctx, callerOf(ctx).who, in.After, in.Limit)
	out := &ruleSetsOut{From: from, Body: &admin.Entries{RuleSets: append([]rules.Entry{}, found...)}}
	if len(found) == in.Limit {
		out.Body.Next = found[len(found)-1].RuleSetID
	}
	return out, err
}

type ruleSetsOut struct {
	From
	Body *admin.Entries
}

// listed returns a page of the rule sets in the source that a caller may see.
func (a *API) listed(ctx context.Context, who *access.Identity, after string, limit int) ([]rules.Entry, error) {
	if who.MayAll(config.RoleRead) {
		return a.config.Operator.List(ctx, after, limit)
	}
	var page []rules.Entry
	for _, id := range who.RuleSets() {
		if id <= after || len(page) == limit {
			continue
		}
		last, err := a.config.Operator.History(ctx, id, 0, 1)
		if err != nil {
			return nil, err
		}
		if len(last) > 0 && !last[0].Deleted {
			page = append(page, last[0])
		}
	}
	return page, nil
}

type ruleSetOut struct {
	From
	ETag string `header:"ETag" doc:"The revision, to base a change on."`
	Body *rules.Set
}

func (a *API) getRuleSet(ctx context.Context, in *RuleSetPath) (*ruleSetOut, error) {
	v, from, err := a.current(ctx, in.RuleSet)
	if err != nil {
		return nil, err
	}
	return &ruleSetOut{From: from, ETag: tag(v.Revision), Body: v.RuleSet}, nil
}

// ofSource returns the error of reading a source. The caller did not send its rules, so
// invalid ones are not a 422. Their problems may show other rule sets and are only for
// callers that may read all.
func ofSource(ctx context.Context, err error) error {
	var invalid *rules.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	detail := "The rules in the source are invalid; the last valid revision, if the server has one, stays in effect"
	if callerOf(ctx).who.MayAll(config.RoleRead) {
		detail += ": " + err.Error()
	} else {
		detail += ". See the server's log."
	}
	return admin.NewProblem(http.StatusServiceUnavailable, admin.KindUnavailable, detail)
}

func (a *API) putRuleSet(ctx context.Context, in *struct {
	RuleSetPath
	Condition
	Body ruleSetDocument
}) (*saved, error) {
	return a.replace(ctx, in.RuleSet, &in.Condition, func(*rules.Set) (*rules.Set, error) {
		return a.parse(ctx, in.Body, in.RuleSet)
	})
}

// parse parses a rule set that was sent under an id. A large one needs memory, so few are
// parsed at once.
func (a *API) parse(ctx context.Context, doc ruleSetDocument, id string) (*rules.Set, error) {
	select {
	case a.reading <- struct{}{}:
		defer func() { <-a.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := rules.CheckSize(doc); err != nil {
		return nil, err
	}
	set, err := rules.Parse(doc)
	var invalid *rules.ValidationError
	switch {
	case err != nil && !errors.As(err, &invalid):
		return nil, notJSON("a rule set", err)
	case err != nil:
		return nil, err
	case id != "" && set.ID() != id:
		return nil, otherID(id, id)
	}
	return set, nil
}

// notJSON is the answer to a body that is not a JSON object, with the position of its error.
func notJSON(what string, err error) error {
	detail := "The body must be " + what + " as JSON"
	var syntax *strictjson.SyntaxError
	if errors.As(err, &syntax) {
		detail += ": " + syntax.Error()
	}
	return admin.NewProblem(http.StatusBadRequest, admin.KindValidation, detail+".")
}

func (a *API) deleteRuleSet(ctx context.Context, in *struct {
	RuleSetPath
	Condition
}) (*saved, error) {
	return a.replace(ctx, in.RuleSet, &in.Condition, func(*rules.Set) (*rules.Set, error) {
		return nil, nil
	})
}

func (a *API) validateRuleSet(ctx context.Context, in *struct{ Body ruleSetDocument }) (*admin.Validation, error) {
	set, err := a.parse(ctx, in.Body, "")
	var invalid *rules.ValidationError
	switch {
	case err == nil:
		return &admin.Validation{Valid: true, Rules: set.Len(), Warnings: admin.NewRuleWarnings(set)}, nil
	case errors.As(err, &invalid):
		return &admin.Validation{Errors: admin.ProblemOf(err).Errors}, nil
	}
	return nil, err
}
