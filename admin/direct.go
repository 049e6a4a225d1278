package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Direct is an operator that works on a rule source and an engine, without a
// server.
type Direct struct {
	rules.Editor
	engine  func() *fluxgate.Engine
	ruleSet string

	// OverrideEditor has the overrides, if the editor of the rules has none.
	OverrideEditor rules.OverrideEditor
	// Fleet returns the servers that apply the rules, those that are known. Nil means none.
	Fleet func(context.Context) []Server
	// Recent returns the last warnings, newest first. Nil means none.
	Recent func(ctx context.Context, most int) ([]store.Warning, error)
}

var _ Operator = (*Direct)(nil)

// ErrNoEngine is returned by operations that need an engine, if there is none.
var ErrNoEngine = errors.New("no engine: only rules can be edited here")

// NewDirect returns an operator. engine returns the current engine, and may be nil
// if only rules are edited. ruleSet is the rule set of requests that name none.
func NewDirect(editor rules.Editor, engine func() *fluxgate.Engine, ruleSet string) *Direct {
	return &Direct{Editor: editor, engine: engine, ruleSet: ruleSet}
}

// Whoami implements [Operator]. There is no authentication.
func (d *Direct) Whoami(context.Context) (*Who, error) {
	_, files := d.Editor.(*readOnly)
	return &Who{Name: "direct", Roles: []string{"read", "write"}, DefaultRuleSet: d.ruleSet, ReadOnly: files}, nil
}

// Changed is the result of a change. Before and After are nil if there is no rule set.
type Changed struct {
	Before, After *rules.Set
	// Diff has the differences between them.
	Diff []rules.RuleDiff
	// Revision is the current revision: that of the base if nothing changed.
	Revision int64
	// Overrides is how many overrides were deleted with the rule set, at most [rules.MaxPage]. Then
	// there may be more.
	Overrides int
	// Lost is true if the source has lost the rules of the base: Before is nil.
	Lost bool
}

// ErrLost is returned for a change of a part of a rule set whose current revision the source has
// lost.
var ErrLost = errors.New("the rule source has lost the rules of the current revision, so only the whole rule set can be replaced: " +
	"apply all of its rules, restore a revision, or delete it")

// Edit changes a rule set. It gets the rule set at the base revision of the change, or
// nil if there was none. It returns the new rule set, or nil to delete it.
type Edit func(before *rules.Set) (after *rules.Set, err error)

// Change changes a rule set, and keeps the times of its rules. The error is [ErrLost] if the base is
// the current revision, and cannot be read.
func (d *Direct) Change(ctx context.Context, id string, change rules.Change, edit Edit) (Changed, error) {
	return d.change(ctx, id, change, func(before *rules.Set, lost bool) (*rules.Set, error) {
		if lost {
			return nil, fmt.Errorf("rule set %q, revision %d: %w", id, change.Base, ErrLost)
		}
		return edit(before)
	}, stamp)
}

// Replace is [Direct.Change] of a whole rule set, or its deletion. It repairs a rule set whose current
// revision the source has lost: edit gets nil then.
func (d *Direct) Replace(ctx context.Context, id string, change rules.Change, edit Edit) (Changed, error) {
	return d.change(ctx, id, change, func(before *rules.Set, _ bool) (*rules.Set, error) { return edit(before) }, stamp)
}

func stamp(before, after *rules.Set) (*rules.Set, error) {
	return rules.Stamp(before, after, time.Now())
}

// Restore implements [Operator].
func (d *Direct) Restore(ctx context.Context, id string, revision int64, change rules.Change) (int64, error) {
	done, err := d.RestoreChange(ctx, id, revision, change)
	return done.Revision, err
}

// RestoreChange is Restore, and returns the changes.
func (d *Direct) RestoreChange(ctx context.Context, id string, revision int64, change rules.Change) (Changed, error) {
	change.Comment = cmp.Or(change.Comment, rules.RestoreComment(revision))
	return d.change(ctx, id, change, func(*rules.Set, bool) (*rules.Set, error) {
		v, err := d.Version(ctx, id, revision)
		if err == nil && v.RuleSet == nil {
			err = fmt.Errorf("revision %d deleted the rule set: %w", revision, rules.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		return v.RuleSet, nil
	}, func(_, after *rules.Set) (*rules.Set, error) { return after, nil })
}

func (d *Direct) change(
	ctx context.Context, id string, change rules.Change,
	edit func(before *rules.Set, lost bool) (*rules.Set, error), stamp func(before, after *rules.Set) (*rules.Set, error),
) (Changed, error) {
	before, lost, err := d.base(ctx, id, change)
	if err != nil {
		return Changed{}, describe(ctx, d.Editor, err)
	}
	after, err := edit(before, lost)
	if err != nil {
		return Changed{}, err
	}
	done := Changed{Before: before, After: after, Lost: lost}
	if done.Diff = rules.Diff(before, after); before != nil && after != nil && len(done.Diff) == 0 {
		done.Revision, err = change.Base, d.checkCurrent(ctx, id, change)
		return done, describe(ctx, d.Editor, err)
	}
	if !change.Force {
		if err := d.checkUnfit(ctx, before, after); err != nil {
			return Changed{}, err
		}
		if err := d.checkUnderstood(ctx, before, after); err != nil {
			return Changed{}, err
		}
	}
	if after == nil {
		if done.Overrides, err = d.countOverrides(ctx, id); err == nil {
			done.Revision, err = d.Editor.Delete(ctx, id, change)
		}
	} else if done.After, err = stamp(before, after); err == nil {
		done.Revision, err = d.Editor.Put(ctx, done.After, change)
	}
	if err != nil {
		return Changed{}, describe(ctx, d.Editor, err)
	}
	return done, nil
}

// checkCurrent returns an error unless a change is based on the current revision.
func (d *Direct) checkCurrent(ctx context.Context, id string, change rules.Change) error {
	if err := change.Check(); err != nil {
		return err
	}
	heads, err := d.Revisions(ctx, []string{id})
	if err != nil {
		return err
	}
	return change.CheckHead(id, heads[id])
}

// base returns the rule set that a change is based on, nil if there was none. An
// unknown revision is a conflict, unless it is the current one: then its rules are lost.
func (d *Direct) base(ctx context.Context, id string, change rules.Change) (set *rules.Set, lost bool, err error) {
	if change.Base == 0 {
		return nil, false, nil
	}
	v, err := d.Version(ctx, id, change.Base)
	switch {
	case errors.Is(err, rules.ErrNotFound):
		return nil, true, d.checkCurrent(ctx, id, change)
	case err != nil:
		return nil, false, err
	}
	return v.RuleSet, false, nil
}

// Put implements [Operator].
func (d *Direct) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	done, err := d.Replace(ctx, set.ID(), change, func(*rules.Set) (*rules.Set, error) { return set, nil })
	return done.Revision, err
}

// Delete implements [Operator].
func (d *Direct) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	done, err := d.Replace(ctx, id, change, func(*rules.Set) (*rules.Set, error) { return nil, nil })
	return done.Revision, err
}

// Explain implements [Operator].
func (d *Direct) Explain(ctx context.Context, req *fluxgate.Request) (*Explanation, error) {
	engine, err := d.currentEngine()
	if err != nil {
		return nil, err
	}
	e, err := engine.Explain(ctx, req)
	if err != nil {
		return nil, d.sourceError(ctx, req, err)
	}
	return explained(engine, &e), nil
}

// Buckets returns the buckets of the caller of a request under the named rules of its rule set,
// or under all rules that apply if none is named.
func (d *Direct) Buckets(ctx context.Context, req *fluxgate.Request, rules ...string) ([]Bucket, error) {
	engine, err := d.currentEngine()
	if err != nil {
		return nil, err
	}
	found, err := engine.Buckets(ctx, req, rules...)
	if err != nil {
		return nil, d.sourceError(ctx, req, err)
	}
	all := make([]Bucket, len(found))
	for i := range found {
		b := &found[i]
		all[i] = Bucket{Rule: b.Rule.ID, Key: engine.ShowKey(b.Key), Status: b.Status.String(), Time: b.Time.UTC(), Bands: []Band{}}
		for j := range b.Bands {
			all[i].Bands = append(all[i].Bands, wire.FromBand(&b.Bands[j]))
		}
	}
	return all, nil
}

// sourceError returns the error of the source instead of ErrNoRuleSet, if the rule
// set is missing because its source is unavailable.
func (d *Direct) sourceError(ctx context.Context, req *fluxgate.Request, err error) error {
	if !errors.Is(err, fluxgate.ErrNoRuleSet) {
		return err
	}
	id := cmp.Or(req.RuleSet, d.ruleSet)
	if _, failure := d.Revisions(ctx, []string{id}); failure != nil {
		return failure
	}
	return err
}

func (d *Direct) currentEngine() (*fluxgate.Engine, error) {
	if d.engine == nil {
		return nil, ErrNoEngine
	}
	if engine := d.engine(); engine != nil {
		return engine, nil
	}
	return nil, ErrNoEngine
}
