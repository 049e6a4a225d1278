package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// saved is the answer to a change.
type saved struct {
	Status int
	ETag   string `header:"ETag" doc:"The new revision."`
	Body   admin.Entry
}

// change makes a change to a rule set.
func (a *API) change(ctx context.Context, ruleSet string, on *Condition, edit admin.Edit) (*saved, error) {
	return a.changed(ctx, ruleSet, on, func(change rules.Change) (admin.Changed, error) {
		what := changingOf(ctx)
		var after *fluxgate.RuleSet
		done, err := a.config.Operator.Change(ctx, ruleSet, change, func(before *fluxgate.RuleSet) (_ *fluxgate.RuleSet, err error) {
			after, err = edit(before)
			what.sent = err == nil
			return after, err
		})
		if rule := what.record.Rule; err != nil && rule != "" && after != nil {
			err = inside(err, indexOf(after, rule)) // the source has looked at all of them
		}
		return done, err
	})
}

// changed answers a change that do makes, and tells the audit.
func (a *API) changed(ctx context.Context, ruleSet string, on *Condition, do func(rules.Change) (admin.Changed, error)) (*saved, error) {
	out, err := a.tryChange(ctx, ruleSet, on, do)
	if err != nil {
		err = a.failed(ctx, err)
		changingOf(ctx).problem = err.Error()
		return nil, err
	}
	return out, nil
}

func (a *API) tryChange(ctx context.Context, ruleSet string, on *Condition, do func(rules.Change) (admin.Changed, error)) (*saved, error) {
	base, err := on.base(ctx, a.config.Operator, ruleSet)
	if err != nil {
		return nil, err
	}
	audited := changingOf(ctx)
	audited.record.Before, audited.record.Comment = base, on.Comment
	change := rules.Change{Base: base, Author: callerOf(ctx).who.Name, Comment: on.Comment}
	if err := change.Check(); err != nil {
		return nil, admin.NewProblem(http.StatusUnprocessableEntity, admin.KindValidation, err.Error())
	}
	done, err := do(change)
	if err != nil {
		return nil, err
	}
	out := &saved{Status: http.StatusOK, ETag: tag(done.Revision), Body: admin.Entry{
		ID: ruleSet, Revision: done.Revision, Deleted: done.After == nil, Author: change.Author, Comment: change.Comment,
	}}
	audited.record.After = done.Revision
	if base == 0 {
		out.Status = http.StatusCreated
	}
	if done.Revision != base {
		short, left := rules.Abridge(done.Diff, maxAudited)
		audited.record.Changes, _ = json.Marshal(short) // plain values
		if left > 0 {
			audited.problem = fmt.Sprintf("%d more rules have changed: compare the revisions", left)
		}
		if a.config.Changed != nil {
			a.config.Changed(audited.request)
		}
	}
	return out, nil
}

// maxAudited is how many bytes of changes a record has.
const maxAudited = 32 << 10
