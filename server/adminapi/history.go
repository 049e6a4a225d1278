package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

func (a *API) registerHistory() {
	const all, one = "/v1/rule-sets/{ruleSet}/revisions", "/v1/rule-sets/{ruleSet}/revisions/{revision}"
	answer(a, a.get(all, "list-revisions", tagHistory, "List the revisions of a rule set", http.StatusNotFound), a.listRevisions)
	answer(a, a.get(one, "get-revision", tagHistory, "Read a rule set at a revision", http.StatusNotFound), a.getRevision)
	register(a, a.edit(http.MethodPost, one+"/restore", "restore-revision", tagHistory,
		"Restore a revision, as a new revision"), a.restoreRevision)
	answer(a, a.get("/v1/rule-sets/{ruleSet}/diff", "diff-revisions", tagHistory, "Compare two revisions", http.StatusNotFound),
		a.diffRevisions)
}

func (a *API) listRevisions(ctx context.Context, in *struct {
	RuleSetPath
	Page
	Before int64 `query:"before" minimum:"0" doc:"The last revision of the previous page."`
}) (*admin.Revisions, error) {
	found, err := a.config.Operator.History(ctx, in.RuleSet, in.Before, in.Limit)
	if err == nil && len(found) == 0 && in.Before == 0 {
		err = fmt.Errorf("rule set %q: %w", in.RuleSet, rules.ErrNotFound)
	}
	out := &admin.Revisions{Revisions: append([]rules.Entry{}, found...)}
	if len(found) == in.Limit {
		out.Next = found[len(found)-1].Revision
	}
	return out, err
}

// RevisionPath is a revision in a path.
type RevisionPath struct {
	RuleSetPath
	Revision int64 `path:"revision" minimum:"1" doc:"The revision."`
}

func (a *API) getRevision(ctx context.Context, in *RevisionPath) (*rules.Version, error) {
	return a.reader.Version(ctx, in.RuleSet, in.Revision)
}

func (a *API) restoreRevision(ctx context.Context, in *struct {
	RevisionPath
	Condition
}) (*saved, error) {
	in.Comment = cmp.Or(in.Comment, rules.RestoreComment(in.Revision)) // also in the audit and the answer
	return a.save(ctx, in.RuleSet, &in.Condition, func(change rules.Change) (admin.Changed, error) {
		attemptOf(ctx).sent = true
		return a.config.Operator.RestoreChange(ctx, in.RuleSet, in.Revision, change)
	})
}

func (a *API) diffRevisions(ctx context.Context, in *struct {
	RuleSetPath
	From int64 `query:"from" minimum:"0" doc:"The older revision. The default is the one before to; 0 before the first means no rule set."`
	To   int64 `query:"to" minimum:"0" maximum:"9007199254740991" doc:"The newer revision. The default is the current one."`
}) (*admin.Diff, error) {
	return admin.Compare(ctx, a.reader, in.RuleSet, in.From, in.To)
}
