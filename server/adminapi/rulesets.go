package adminapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerRuleSets() {
	const one = "/v1/rule-sets/{ruleSet}"
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodGet, "/v1/rule-sets", "list-rule-sets", tagRuleSets, "List the rule sets"), a.listRuleSets)
	get := a.operation(config.RoleRead, http.MethodGet, one, "get-rule-set", tagRuleSets, "Read a rule set", http.StatusNotFound)
	also(&get, http.StatusNotModified, "")
	huma.Register(a.huma, get, a.getRuleSet)
	put := a.documented(config.RoleWrite, http.MethodPut, one, "put-rule-set", "Make or replace a rule set")
	also(&put, http.StatusCreated, "Entry")
	huma.Register(a.huma, put, a.putRuleSet)
	huma.Register(a.huma, a.operation(config.RoleWrite, http.MethodDelete, one, "delete-rule-set", tagRuleSets, "Take a rule set away; its history stays", changeErrors...), a.deleteRuleSet)
	huma.Register(a.huma, a.documented(config.RoleRead, http.MethodPost, "/v1/validate", "validate-rule-set", "Check a rule set without saving it"), a.validateRuleSet)
}

// changeErrors are what can be wrong with a change.
var changeErrors = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusPreconditionRequired}

// documented is an operation that takes a document, which our own decoder
// reads.
func (a *API) documented(role config.Role, method, path, id, summary string) huma.Operation {
	errors := changeErrors
	if role != config.RoleWrite {
		errors = nil
	}
	op := a.operation(role, method, path, id, tagRuleSets, summary, append(errors, http.StatusRequestEntityTooLarge)...)
	op.MaxBodyBytes, op.SkipValidateBody = maxBody, true
	return op
}

type entriesOut struct{ Body admin.Entries }

func (a *API) listRuleSets(ctx context.Context, in *struct {
	Page
	After string `query:"after" maxLength:"64" doc:"The last rule set of the page before."`
}) (*entriesOut, error) {
	out := &entriesOut{Body: admin.Entries{RuleSets: []admin.Entry{}}}
	found, err := a.visible(ctx, callerOf(ctx).who, in.After, in.Limit)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	for i := range found {
		out.Body.RuleSets = append(out.Body.RuleSets, admin.EntryOf(&found[i]))
	}
	if len(found) == in.Limit {
		out.Body.Next = found[len(found)-1].RuleSetID
	}
	return out, nil
}

// visible is a page of the rule sets that a caller may know of. One who is kept
// to some is not told of others, not even by where a page ends.
func (a *API) visible(ctx context.Context, who *access.Identity, after string, limit int) ([]rules.Entry, error) {
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
	Status int
	ETag   string `header:"ETag" doc:"The revision, to base a change on."`
	Body   ruleSetDocument
}

func (a *API) getRuleSet(ctx context.Context, in *struct {
	RuleSetPath
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of what the reader has: if it is current the answer is 304."`
}) (*ruleSetOut, error) {
	v, err := a.current(ctx, in.RuleSet)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	out := &ruleSetOut{Status: http.StatusOK, ETag: tag(v.Revision)}
	if unchanged(in.IfNoneMatch, v.Revision) {
		out.Status = http.StatusNotModified
		return out, nil
	}
	if out.Body, err = written[fluxgate.RuleSetDocument](v.RuleSet); err != nil {
		return nil, a.failed(ctx, err)
	}
	return out, nil
}

// current is a rule set as it is now.
func (a *API) current(ctx context.Context, ruleSet string) (*rules.Version, error) {
	v, err := a.reader.Load(ctx, ruleSet)
	return v, ofSource(ctx, err)
}

// ofSource is the error of reading a source. Rules of it that are invalid were
// not sent by the caller, so that is no 422. What is wrong with them may show
// other rule sets, and is for callers who may read all.
func ofSource(ctx context.Context, err error) error {
	var invalid *fluxgate.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	detail := "The rules of the source are invalid; the last valid ones stay in effect"
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
	return a.change(ctx, in.RuleSet, &in.Condition, func(*fluxgate.RuleSet) (*fluxgate.RuleSet, error) {
		return a.parse(ctx, in.Body, in.RuleSet)
	})
}

// parse reads a rule set that was sent under an id. A large one takes its
// memory, so only some are read at once.
func (a *API) parse(ctx context.Context, doc ruleSetDocument, id string) (*fluxgate.RuleSet, error) {
	select {
	case a.reading <- struct{}{}:
		defer func() { <-a.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := rules.CheckSize(doc); err != nil {
		return nil, err
	}
	set, err := fluxgate.ParseRuleSet(doc)
	var invalid *fluxgate.ValidationError
	switch {
	case err != nil && !errors.As(err, &invalid):
		return nil, admin.NewProblem(http.StatusBadRequest, admin.KindValidation, "The body must be a rule set as JSON.")
	case err != nil:
		return nil, err
	case id != "" && set.ID() != id:
		return nil, otherID(id, id)
	}
	return set, nil
}

func (a *API) deleteRuleSet(ctx context.Context, in *struct {
	RuleSetPath
	Condition
}) (*saved, error) {
	return a.change(ctx, in.RuleSet, &in.Condition, func(*fluxgate.RuleSet) (*fluxgate.RuleSet, error) {
		return nil, nil
	})
}

type validationOut struct{ Body admin.Validation }

func (a *API) validateRuleSet(ctx context.Context, in *struct{ Body ruleSetDocument }) (*validationOut, error) {
	set, err := a.parse(ctx, in.Body, "")
	var invalid *fluxgate.ValidationError
	switch {
	case err == nil:
		return &validationOut{admin.Validation{Valid: true, Rules: set.Len()}}, nil
	case errors.As(err, &invalid):
		return &validationOut{admin.Validation{Errors: admin.ProblemOf(err).Errors}}, nil
	}
	return nil, a.failed(ctx, err)
}
