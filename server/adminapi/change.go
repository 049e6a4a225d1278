package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// saved is the answer to a change.
type saved struct {
	Status int
	ETag   string `header:"ETag" doc:"The new revision."`
	Body   rules.Entry
}

// change changes a rule set.
func (a *API) change(ctx context.Context, ruleSet string, on *Condition, edit admin.Edit) (*saved, error) {
	return a.save(ctx, ruleSet, on, func(change rules.Change) (admin.Changed, error) {
		attempt := attemptOf(ctx)
		var after *rules.Set
		done, err := a.config.Operator.Change(ctx, ruleSet, change, func(before *rules.Set) (_ *rules.Set, err error) {
			after, err = edit(before)
			attempt.sent = err == nil
			return after, err
		})
		if rule := attempt.record.Rule; err != nil && rule != "" && after != nil {
			err = inside(err, indexOf(after, rule)) // the source has checked all rules
		}
		return done, err
	})
}

// save makes a change, records it for the audit and returns the answer.
func (a *API) save(ctx context.Context, ruleSet string, on *Condition, do func(rules.Change) (admin.Changed, error)) (*saved, error) {
	base, err := on.base(ctx, a.config.Operator, ruleSet)
	if err != nil {
		return nil, err
	}
	attempt := attemptOf(ctx)
	attempt.record.Before, attempt.record.Comment = base, on.Comment
	change := rules.Change{Base: base, Author: callerOf(ctx).who.Name, Comment: on.Comment, Force: on.Force}
	if err := change.Check(); err != nil {
		return nil, admin.NewProblem(http.StatusUnprocessableEntity, admin.KindValidation, err.Error())
	}
	done, err := do(change)
	if err != nil {
		return nil, err
	}
	out := &saved{Status: http.StatusOK, ETag: tag(done.Revision), Body: rules.Entry{
		RuleSetID: ruleSet, Head: rules.Head{Revision: done.Revision, Deleted: done.After == nil},
		Author: change.Author, Comment: change.Comment,
	}}
	attempt.record.After = done.Revision
	if base == 0 {
		out.Status = http.StatusCreated
	}
	if done.Revision != base {
		short, left := rules.Abridge(done.Diff, maxAudited)
		attempt.record.Changes, _ = json.Marshal(short) // cannot fail
		if left > 0 {
			attempt.problem = fmt.Sprintf("%d more rules changed: compare the revisions", left)
		}
		if a.config.Changed != nil {
			a.config.Changed(attempt.request)
		}
	}
	return out, nil
}

// maxAudited bounds the changes in a record, in bytes.
const maxAudited = 32 << 10
