package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerOverrides() {
	const all, one = "/v1/rule-sets/{ruleSet}/overrides", "/v1/rule-sets/{ruleSet}/overrides/{override}"
	answer(a, orSupport(a.get(all, "list-overrides", tagOverrides, "List the overrides of a rule set")), a.listOverrides)
	answer(a, orSupport(a.get(one, "get-override", tagOverrides, "Read an override", http.StatusNotFound)), a.getOverride)
	put := a.documented(config.RoleSupport, http.MethodPut, all, "put-overrides", "Write, replace and delete overrides")
	put.Tags = []string{tagOverrides}
	answer(a, put, a.putOverrides)
	answer(a, a.operation(config.RoleSupport, http.MethodDelete, one, "delete-override", tagOverrides,
		"Delete an override", http.StatusNotFound, http.StatusConflict), a.deleteOverride)
}

func (a *API) listOverrides(ctx context.Context, in *struct {
	RuleSetPath
	Page
	After string `query:"after" pattern:"^[0-9a-f]{48}$" doc:"The value of next of the previous page."`
}) (*admin.Overrides, error) {
	found, err := a.config.Operator.ListOverrides(ctx, in.RuleSet, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &admin.Overrides{Overrides: make([]rules.OverrideDocument, len(found.Overrides)), Next: found.Next}
	for i := range found.Overrides {
		out.Overrides[i] = found.Overrides[i].Document()
	}
	return out, nil
}

// OverridePath is an override in a path.
type OverridePath struct {
	RuleSetPath
	Override string `path:"override" pattern:"^[0-9a-f]{32}$" doc:"The id of the override."`
}

func (a *API) getOverride(ctx context.Context, in *OverridePath) (*rules.OverrideDocument, error) {
	found, err := a.config.Operator.Override(ctx, in.RuleSet, in.Override)
	if err != nil {
		return nil, err
	}
	doc := found.Document()
	return &doc, nil
}

// OverridesChange is the body of a change, which our own decoder reads.
type OverridesChange struct {
	Overrides []rules.OverrideDocument `json:"overrides" nullable:"false" doc:"Each replaces one of the same rule and identity."`
}

func (a *API) putOverrides(ctx context.Context, in *struct {
	RuleSetPath
	DryRun bool `query:"dryRun" doc:"Only check them."`
	Body   document[OverridesChange]
}) (*admin.OverridesChanged, error) {
	select {
	case a.reading <- struct{}{}:
		defer func() { <-a.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list, err := readOverrides(in.Body, in.RuleSet)
	if err != nil {
		return nil, err
	}
	changes, wrong := make([]rules.Override, len(list)), admin.OverrideErrors{}
	for i, doc := range list {
		var err error
		if changes[i], err = decodeOverride(doc, in.RuleSet); err != nil {
			wrong[i] = err
		}
		changes[i].Author = callerOf(ctx).who.Name
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return a.changeOverrides(ctx, in.RuleSet, changes, in.DryRun)
}

// readOverrides reads the list of overrides in a body.
func readOverrides(body []byte, ruleSet string) ([]any, error) {
	doc, err := rules.ReadObject(body)
	var twice *rules.ValidationError
	switch {
	case errors.As(err, &twice):
		twice.RuleSetID = ruleSet
		return nil, admin.ProblemOf(twice)
	case err != nil:
		return nil, notJSON("an object with overrides", err)
	}
	for name := range doc {
		if name != "overrides" {
			return nil, admin.ProblemOf(&rules.ValidationError{RuleSetID: ruleSet, Problems: []rules.Problem{
				{Code: rules.CodeUnknownField, Path: rules.Path{name}, Message: "is not a known field"},
			}})
		}
	}
	list, ok := doc["overrides"].([]any)
	switch {
	case !ok:
		return nil, admin.NewProblem(http.StatusBadRequest, admin.KindValidation,
			"The body must be an object with a list of overrides, as JSON.")
	case len(list) > admin.MaxOverrides:
		return nil, fmt.Errorf("%w: %d at once, not %d", rules.ErrTooManyOverrides, admin.MaxOverrides, len(list))
	}
	return list, nil
}

// decodeOverride reads an override for a rule set.
func decodeOverride(from any, ruleSet string) (rules.Override, error) {
	doc, ok := from.(map[string]any)
	if !ok {
		return rules.Override{}, admin.NewProblem(http.StatusBadRequest, admin.KindValidation, "must be an object")
	}
	doc["ruleSetId"] = ruleSet
	delete(doc, "author")
	delete(doc, "at")
	return rules.ReadOverride(doc)
}

// changeOverrides makes changes and records them for the audit.
func (a *API) changeOverrides(ctx context.Context, ruleSet string, changes []rules.Override, dryRun bool) (*admin.OverridesChanged, error) {
	attempt := attemptOf(ctx)
	attempt.sent = !dryRun
	done, err := a.config.Operator.PutOverrides(ctx, ruleSet, changes, dryRun)
	if done == nil || dryRun {
		return done, err
	}
	attempt.record.Outcome, attempt.record.Changes = audit.Changed, audited(changes[:len(done.IDs)])
	if a.config.Changed != nil {
		a.config.Changed(attempt.request, ruleSet)
	}
	return done, err
}

// audited returns the changes for the audit, as many as there is room for.
func audited(changes []rules.Override) json.RawMessage {
	for n := len(changes); ; n /= 2 {
		text, err := json.Marshal(struct {
			Overrides []rules.Override `json:"overrides"`
			More      int              `json:"more,omitempty"`
		}{changes[:n], len(changes) - n})
		if err == nil && len(text) <= maxAudited || n == 0 {
			return text
		}
	}
}

func (a *API) deleteOverride(ctx context.Context, in *OverridePath) (*admin.OverridesChanged, error) {
	found, err := a.config.Operator.Override(ctx, in.RuleSet, in.Override)
	if err != nil {
		return nil, err
	}
	return a.changeOverrides(ctx, in.RuleSet, []rules.Override{found.Deletion(callerOf(ctx).who.Name)}, false)
}
