package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
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
	who := callerOf(ctx).who
	out := &entriesOut{Body: admin.Entries{RuleSets: []admin.Entry{}}}
	for {
		found, err := a.config.Operator.List(ctx, in.After, in.Limit)
		if err != nil {
			return nil, a.failed("list-rule-sets", err)
		}
		for i := range found {
			if who.May(config.RoleRead, found[i].RuleSetID) {
				out.Body.RuleSets = append(out.Body.RuleSets, admin.EntryOf(&found[i]))
			}
		}
		if len(found) < in.Limit {
			return out, nil
		}
		in.After = found[len(found)-1].RuleSetID
		if len(out.Body.RuleSets) > 0 {
			out.Body.Next = in.After
			return out, nil
		}
	}
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
		return nil, a.failed("get-rule-set", err)
	}
	out := &ruleSetOut{Status: http.StatusOK, ETag: tag(v.Revision)}
	if unchanged(in.IfNoneMatch, v.Revision) {
		out.Status = http.StatusNotModified
		return out, nil
	}
	if out.Body, err = written[fluxgate.RuleSetDocument](v.RuleSet); err != nil {
		return nil, a.failed("get-rule-set", err)
	}
	return out, nil
}

// current is a rule set as it is now.
func (a *API) current(ctx context.Context, ruleSet string) (*rules.Version, error) {
	return a.reader.Load(ctx, ruleSet)
}

// saved is the answer to a change.
type saved struct {
	Status int
	ETag   string `header:"ETag" doc:"The new revision."`
	Body   admin.Entry
}

func (a *API) putRuleSet(ctx context.Context, in *struct {
	RuleSetPath
	Condition
	Body ruleSetDocument
}) (*saved, error) {
	return a.change(ctx, "put-rule-set", in.RuleSet, &in.Condition, func(*fluxgate.RuleSet) (*fluxgate.RuleSet, error) {
		return parse(in.Body, in.RuleSet)
	})
}

// parse reads a rule set that was sent under an id.
func parse(doc ruleSetDocument, id string) (*fluxgate.RuleSet, error) {
	set, err := fluxgate.ParseRuleSet(doc)
	var invalid *fluxgate.ValidationError
	switch {
	case err != nil && !errors.As(err, &invalid):
		return nil, admin.NewProblem(http.StatusBadRequest, admin.KindValidation, "The body must be a rule set as JSON.")
	case err != nil:
		return nil, err
	case id != "" && set.ID() != id:
		return nil, &fluxgate.ValidationError{RuleSetID: id, Problems: []fluxgate.Problem{{Place: "id", Message: fmt.Sprintf("must be %q, as in the path", id)}}}
	}
	return set, nil
}

// change makes a change to a rule set: edit gets it as it was when its author
// saw it, nil if there was none.
func (a *API) change(ctx context.Context, operation, ruleSet string, on *Condition, edit func(before *fluxgate.RuleSet) (*fluxgate.RuleSet, error)) (*saved, error) {
	out, err := a.tryChange(ctx, ruleSet, on, edit)
	if err != nil {
		err = a.failed(operation, err)
		changingOf(ctx).problem = err.Error()
		return nil, err
	}
	return out, nil
}

func (a *API) tryChange(ctx context.Context, ruleSet string, on *Condition, edit func(*fluxgate.RuleSet) (*fluxgate.RuleSet, error)) (*saved, error) {
	base, err := on.base(ctx, a.config.Operator, ruleSet)
	if err != nil {
		return nil, err
	}
	audited := changingOf(ctx)
	audited.record.Before, audited.record.After = base, base
	change := rules.Change{Base: base, Author: callerOf(ctx).who.Name, Comment: on.Comment}
	if err := change.Check(); err != nil {
		return nil, admin.NewProblem(http.StatusUnprocessableEntity, admin.KindValidation, err.Error())
	}
	var after *fluxgate.RuleSet
	done, err := a.config.Operator.Change(ctx, ruleSet, change, func(before *fluxgate.RuleSet) (set *fluxgate.RuleSet, err error) {
		after, err = edit(before)
		return after, err
	})
	if err != nil {
		if rule := audited.record.Rule; rule != "" && after != nil {
			err = inside(err, indexOf(after, rule)) // the source has looked at all of them
		}
		return nil, err
	}
	out := &saved{Status: http.StatusOK, ETag: tag(done.Revision), Body: admin.Entry{
		ID: ruleSet, Revision: done.Revision, Deleted: done.After == nil, Author: change.Author, Comment: change.Comment,
	}}
	if base == 0 {
		out.Status = http.StatusCreated
	}
	if done.Revision != base {
		audited.record.After = done.Revision
		audited.record.Changes, _ = json.Marshal(rules.Diff(done.Before, done.After)) // plain values
		if a.config.Changed != nil {
			a.config.Changed(audited.request)
		}
	}
	return out, nil
}

func (a *API) deleteRuleSet(ctx context.Context, in *struct {
	RuleSetPath
	Condition
}) (*saved, error) {
	return a.change(ctx, "delete-rule-set", in.RuleSet, &in.Condition, func(*fluxgate.RuleSet) (*fluxgate.RuleSet, error) {
		return nil, nil
	})
}

type validationOut struct{ Body admin.Validation }

func (a *API) validateRuleSet(_ context.Context, in *struct{ Body ruleSetDocument }) (*validationOut, error) {
	set, err := parse(in.Body, "")
	if err == nil {
		return &validationOut{admin.Validation{Valid: true, Rules: set.Len()}}, nil
	}
	problem := admin.ProblemOf(err)
	if problem.Status == http.StatusBadRequest {
		return nil, problem
	}
	return &validationOut{admin.Validation{Errors: problem.Errors}}, nil
}
