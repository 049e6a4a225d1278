package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/insight"
)

func (a *API) registerOverrides() {
	const all, one = "/v1/rule-sets/{ruleSet}/overrides", "/v1/rule-sets/{ruleSet}/overrides/{override}"
	answer(a, a.get(all, "list-overrides", tagOverrides, "List the overrides of a rule set"), a.listOverrides)
	answer(a, a.get(one, "get-override", tagOverrides, "Read an override", http.StatusNotFound), a.getOverride)
	put := a.documented(config.RoleWrite, http.MethodPut, all, "put-overrides", "Write, replace and delete overrides")
	put.Tags = []string{tagOverrides}
	answer(a, put, a.putOverrides)
	answer(a, a.operation(config.RoleWrite, http.MethodDelete, one, "delete-override", tagOverrides,
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
	var doc struct {
		Overrides []json.RawMessage `json:"overrides"`
	}
	if err := json.Unmarshal(in.Body, &doc); err != nil || doc.Overrides == nil {
		return nil, admin.NewProblem(http.StatusBadRequest, admin.KindValidation, "The body must be an object with overrides, as JSON.")
	}
	if len(doc.Overrides) > admin.MaxOverrides {
		return nil, fmt.Errorf("%w: %d at once, not %d", rules.ErrTooManyOverrides, admin.MaxOverrides, len(doc.Overrides))
	}
	changes, wrong := make([]rules.Override, len(doc.Overrides)), admin.OverrideErrors{}
	for i, text := range doc.Overrides {
		var err error
		if changes[i], err = decodeOverride(text, in.RuleSet); err != nil {
			wrong[i] = err
		}
		changes[i].Author = callerOf(ctx).who.Name
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return a.changeOverrides(ctx, in.RuleSet, changes, in.DryRun)
}

// decodeOverride reads an override for a rule set.
func decodeOverride(text json.RawMessage, ruleSet string) (rules.Override, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err != nil || doc == nil {
		return rules.Override{}, admin.NewProblem(http.StatusBadRequest, admin.KindValidation, "must be an object")
	}
	doc["ruleSetId"] = ruleSet
	delete(doc, "author")
	delete(doc, "at")
	return rules.DecodeOverride(doc)
}

// changeOverrides makes changes and records them for the audit.
func (a *API) changeOverrides(ctx context.Context, ruleSet string, changes []rules.Override, dryRun bool) (*admin.OverridesChanged, error) {
	if err := a.overridesUnderstood(ctx, changes, dryRun); err != nil {
		return nil, err
	}
	attempt := attemptOf(ctx)
	attempt.sent = !dryRun
	done, err := a.config.Operator.PutOverrides(ctx, ruleSet, changes, dryRun)
	if err != nil || dryRun {
		return done, err
	}
	attempt.record.Outcome, attempt.record.Changes = audit.Changed, audited(changes)
	if a.config.Changed != nil {
		a.config.Changed(attempt.request)
	}
	return done, nil
}

// overridesUnderstood returns an error while a server would not apply overrides. They can be
// deleted then.
func (a *API) overridesUnderstood(ctx context.Context, changes []rules.Override, dryRun bool) error {
	if a.config.Insight == nil || dryRun || !slices.ContainsFunc(changes, func(o rules.Override) bool { return !o.Deleted }) {
		return nil
	}
	if names := a.config.Insight.NotUnderstoodBy(ctx, insight.Overrides); len(names) > 0 {
		return admin.NewProblem(http.StatusConflict, admin.KindConflict, fmt.Sprintf(
			"%d servers do not know overrides, such as %s: update them first. Nothing was changed.", len(names), names[0]))
	}
	return nil
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
	deleted := rules.Override{RuleID: found.RuleID, Identity: found.Identity, Deleted: true, Author: callerOf(ctx).who.Name}
	return a.changeOverrides(ctx, in.RuleSet, []rules.Override{deleted}, false)
}
