package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerHistory() {
	const all, one = "/v1/rule-sets/{ruleSet}/revisions", "/v1/rule-sets/{ruleSet}/revisions/{revision}"
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodGet, all, "list-revisions", tagHistory, "List the revisions of a rule set", http.StatusNotFound), a.listRevisions)
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodGet, one, "get-revision", tagHistory, "Read a rule set as it was", http.StatusNotFound), a.getRevision)
	huma.Register(a.huma, a.operation(config.RoleWrite, http.MethodPost, one+"/restore", "restore-revision", tagHistory, "Make a former revision current again, under a new one", changeErrors...), a.restoreRevision)
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodGet, "/v1/rule-sets/{ruleSet}/diff", "diff-revisions", tagHistory, "Compare two revisions", http.StatusNotFound), a.diffRevisions)
	diff := a.documented(config.RoleRead, http.MethodPost, "/v1/rule-sets/{ruleSet}/diff", "diff-rule-set", "Compare a rule set with the current revision, without saving it")
	diff.Tags = []string{tagHistory}
	huma.Register(a.huma, diff, a.diffRuleSet)
}

type revisionsOut struct{ Body admin.Revisions }

func (a *API) listRevisions(ctx context.Context, in *struct {
	RuleSetPath
	Page
	Before int64 `query:"before" minimum:"0" doc:"The last revision of the page before."`
}) (*revisionsOut, error) {
	found, err := a.config.Operator.History(ctx, in.RuleSet, in.Before, in.Limit)
	if err == nil && len(found) == 0 && in.Before == 0 {
		err = fmt.Errorf("rule set %q: %w", in.RuleSet, rules.ErrNotFound)
	}
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	out := &revisionsOut{admin.Revisions{Revisions: make([]admin.Entry, len(found))}}
	for i := range found {
		out.Body.Revisions[i] = admin.EntryOf(&found[i])
	}
	if len(found) == in.Limit {
		out.Body.Next = found[len(found)-1].Revision
	}
	return out, nil
}

// RevisionPath is a revision in a path.
type RevisionPath struct {
	RuleSetPath
	Revision int64 `path:"revision" minimum:"1" doc:"The revision."`
}

type revisionOut struct {
	Body struct {
		admin.Entry
		RuleSet *ruleSetDocument `json:"ruleSet,omitempty" doc:"The rule set; left out if this revision took it away."`
	} `nameHint:"Revision"`
}

func (a *API) getRevision(ctx context.Context, in *RevisionPath) (*revisionOut, error) {
	v, err := a.reader.Version(ctx, in.RuleSet, in.Revision)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	out := new(revisionOut)
	out.Body.Entry = admin.EntryOf(&v.Entry)
	if v.RuleSet != nil {
		doc, err := written[fluxgate.RuleSetDocument](v.RuleSet)
		if err != nil {
			return nil, a.failed(ctx, err)
		}
		out.Body.RuleSet = &doc
	}
	return out, nil
}

func (a *API) restoreRevision(ctx context.Context, in *struct {
	RevisionPath
	Condition
}) (*saved, error) {
	if in.Comment == "" {
		in.Comment = rules.RestoreComment(in.Revision)
	}
	return a.changed(ctx, in.RuleSet, &in.Condition, func(change rules.Change) (admin.Changed, error) {
		changingOf(ctx).sent = true
		return a.config.Operator.RestoreChange(ctx, in.RuleSet, in.Revision, change)
	})
}

type diffOut struct{ Body *admin.Diff }

func (a *API) diffRevisions(ctx context.Context, in *struct {
	RuleSetPath
	From int64 `query:"from" minimum:"0" doc:"The revision before. The default is the one before to; that of the first is 0, no rule set."`
	To   int64 `query:"to" minimum:"0" maximum:"9007199254740991" doc:"The revision after. The default is the current one."`
}) (*diffOut, error) {
	diff, err := admin.Compare(ctx, a.reader, in.RuleSet, in.From, in.To)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	return &diffOut{diff}, nil
}

func (a *API) diffRuleSet(ctx context.Context, in *struct {
	RuleSetPath
	Body ruleSetDocument
}) (*diffOut, error) {
	set, err := a.parse(ctx, in.Body, in.RuleSet)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	now, err := a.current(ctx, in.RuleSet)
	switch {
	case errors.Is(err, rules.ErrNotFound):
		now = new(rules.Version) // everything would be new
	case err != nil:
		return nil, a.failed(ctx, err)
	}
	return &diffOut{admin.NewDiff(now.Revision, 0, now.RuleSet, set)}, nil
}
