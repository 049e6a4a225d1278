package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// saved is the answer to a change.
type saved struct {
	Status int
	ETag   string `header:"ETag" doc:"The new revision."`
	Body   rules.Entry
}

// change changes a part of a rule set.
func (a *API) change(ctx context.Context, ruleSet string, on *Condition, edit admin.Edit) (*saved, error) {
	return a.applied(ctx, ruleSet, on, a.config.Operator.Change, edit)
}

// replace replaces a rule set, or deletes it.
func (a *API) replace(ctx context.Context, ruleSet string, on *Condition, edit admin.Edit) (*saved, error) {
	return a.applied(ctx, ruleSet, on, a.config.Operator.Replace, edit)
}

// applied makes a change in one of these ways.
func (a *API) applied(
	ctx context.Context, ruleSet string, on *Condition,
	apply func(context.Context, string, rules.Change, admin.Edit) (admin.Changed, error), edit admin.Edit,
) (*saved, error) {
	return a.save(ctx, ruleSet, on, func(change rules.Change) (admin.Changed, error) {
		attempt := attemptOf(ctx)
		var after *rules.Set
		done, err := apply(ctx, ruleSet, change, func(before *rules.Set) (_ *rules.Set, err error) {
			attempt.edited = true
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
		var notes []string
		if done.Lost {
			notes = append(notes, "the rules of the former revision were lost: all of the new ones are shown as added")
		}
		if done.Overrides > 0 {
			notes = append(notes, "overrides deleted with it: "+atMostAPage(done.Overrides))
		}
		if left > 0 {
			notes = append(notes, fmt.Sprintf("%d more rules changed: compare the revisions", left))
		}
		attempt.problem = strings.Join(notes, "; ")
		if a.config.Changed != nil {
			a.config.Changed(attempt.request, ruleSet)
		}
	}
	return out, nil
}

// atMostAPage writes a number that was counted on one page.
func atMostAPage(n int) string {
	if n == rules.MaxPage {
		return fmt.Sprintf("%d or more", n)
	}
	return strconv.Itoa(n)
}

// maxAudited bounds the changes in a record, in bytes.
const maxAudited = 32 << 10
