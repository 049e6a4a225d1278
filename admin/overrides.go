package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// MaxOverrides is how many overrides one call can change.
const MaxOverrides = 10_000

// OverrideErrors are the overrides of a call that are not valid, by their positions. Nothing was
// changed.
type OverrideErrors map[int]error

func (e OverrideErrors) Error() string {
	first := slices.Min(slices.Collect(maps.Keys(e)))
	return fmt.Sprintf("%d overrides are not valid, the first is override %d: %v", len(e), first, e[first])
}

func (e OverrideErrors) problem() *Problem {
	p := NewProblem(http.StatusUnprocessableEntity, KindValidation, fmt.Sprintf("%d overrides are not valid. Nothing was changed.", len(e)))
	for _, i := range slices.Sorted(maps.Keys(e)) {
		if len(p.Errors) == maxShown {
			break
		}
		path := rules.Path{"overrides", i}
		at := append(rules.Path{bodyPlace}, path...)
		p.Errors = append(p.Errors, ProblemDetail{Location: at.String(), Code: rules.CodeInvalidValue, Path: path, Message: e[i].Error()})
	}
	return p
}

// maxShown bounds the overrides that an error names.
const maxShown = 100

// UnfitError is returned for a change of rules with which overrides would not fit any more, unless
// it is forced.
type UnfitError struct{ Problems []fluxgate.OverrideProblem }

func (e *UnfitError) Error() string {
	first := &e.Problems[0]
	return fmt.Sprintf("overrides of %d rules or callers would not fit any more, such as those of rule %q: %v. "+
		"Delete them first, or force the change: they are not applied then", len(e.Problems), first.Rule, first.Err)
}

// checkUnfit returns an error for a change of rules with which overrides do not fit any more.
func (d *Direct) checkUnfit(ctx context.Context, before, after *rules.Set) error {
	engine, err := d.currentEngine()
	if err != nil || engine.Overrides() == nil || before == nil || after == nil {
		return nil //nolint:nilerr // rules are edited alone, and overrides are named when they are read
	}
	_, _, _ = engine.Effective(ctx, &fluxgate.Request{RuleSet: before.ID()}) // loads the overrides of a rule set that is not in use
	problems := engine.Overrides().Problems(after)
	was := engine.Overrides().Problems(before)
	problems = slices.DeleteFunc(problems, func(p fluxgate.OverrideProblem) bool {
		return slices.ContainsFunc(was, func(o fluxgate.OverrideProblem) bool { return o.Rule == p.Rule && o.ID == p.ID })
	})
	if len(problems) > 0 {
		return &UnfitError{problems}
	}
	return nil
}

// Overrides is a page of overrides.
type Overrides struct {
	Overrides []rules.OverrideDocument `json:"overrides" nullable:"false" doc:"Those that end first are first, those without an end last."`
	Next      string                   `json:"next,omitempty" doc:"The value of after for the next page; absent on the last."`
}

// OverridesChanged is the answer to a change of overrides.
type OverridesChanged struct {
	Revision int64    `json:"revision,omitempty" doc:"The last revision; absent if nothing was written."`
	IDs      []string `json:"ids" nullable:"false" doc:"The ids of the overrides, in the order they were sent."`
}

// overrides returns the overrides of the source.
func (d *Direct) overrides() (rules.OverrideEditor, error) {
	if editor, ok := d.Editor.(rules.OverrideEditor); ok {
		return editor, nil
	}
	if d.OverrideEditor != nil {
		return d.OverrideEditor, nil
	}
	return nil, rules.ErrNoOverrides
}

// ListOverrides implements [Operator].
func (d *Direct) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (rules.OverridePage, error) {
	source, err := d.overrides()
	if err != nil {
		return rules.OverridePage{}, err
	}
	return source.ListOverrides(ctx, ruleSet, after, limit)
}

// countOverrides returns the length of the first page of the overrides of a rule set.
func (d *Direct) countOverrides(ctx context.Context, ruleSet string) (int, error) {
	source, err := d.overrides()
	if err != nil {
		return 0, nil //nolint:nilerr // a source without overrides has none
	}
	page, err := source.ListOverrides(ctx, ruleSet, "", rules.MaxPage)
	return len(page.Overrides) + len(page.Damaged), err
}

// Override implements [Operator].
func (d *Direct) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	source, err := d.overrides()
	if err != nil {
		return rules.Override{}, err
	}
	return source.Override(ctx, ruleSet, id)
}

// PutOverrides implements [Operator]. If a part of the changes was made before an error, it returns both.
func (d *Direct) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override, dryRun bool) (*OverridesChanged, error) {
	source, err := d.overrides()
	if err != nil {
		return nil, err
	}
	engine, err := d.currentEngine()
	if err != nil {
		return nil, err
	}
	if err := d.checkOverrides(ctx, engine.Overrides(), ruleSet, changes); err != nil {
		return nil, err
	}
	if err := d.checkAppliedByAll(ctx, changes); err != nil && !dryRun {
		return nil, err
	}
	done := &OverridesChanged{IDs: make([]string, len(changes))}
	for i := range changes {
		done.IDs[i] = changes[i].ID()
	}
	if dryRun {
		return done, nil
	}
	if err := removeEnded(ctx, source, ruleSet); err != nil {
		return nil, err
	}
	written := 0
	for part := range slices.Chunk(changes, rules.MaxPage) {
		if done.Revision, err = source.PutOverrides(ctx, ruleSet, part); err != nil {
			if written > 0 {
				done.IDs = done.IDs[:written]
				return done, fmt.Errorf("%w (%d of %d were written before)", err, written, len(changes))
			}
			return nil, err
		}
		written += len(part)
	}
	return done, nil
}

const (
	// keepEnded is how long an override stays in the source after its end.
	keepEnded = 7 * 24 * time.Hour
	// mostRemoved is how many of them a change removes.
	mostRemoved = 100
)

// removeEnded deletes overrides that have ended long ago: they count as others do.
func removeEnded(ctx context.Context, source rules.OverrideEditor, ruleSet string) error {
	page, err := source.ListOverrides(ctx, ruleSet, "", mostRemoved) // those that end first
	if err != nil {
		return err
	}
	var ended []rules.Override
	for _, o := range page.Overrides {
		if !o.Until.IsZero() && time.Since(o.Until) > keepEnded {
			deletion := o.Deletion("fluxgate")
			deletion.Revision = o.Revision
			ended = append(ended, deletion)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	var moved *rules.OverrideConflictError
	if _, err = source.PutOverrides(ctx, ruleSet, ended); errors.As(err, &moved) {
		err = nil // another change has removed them
	}
	return err
}

// checkOverrides returns all that is wrong with changes.
func (d *Direct) checkOverrides(ctx context.Context, table *fluxgate.Overrides, ruleSet string, changes []rules.Override) error {
	if table == nil {
		return rules.ErrNoOverrides
	}
	if len(changes) > MaxOverrides {
		return fmt.Errorf("%w: %d at once, not %d", rules.ErrTooManyOverrides, MaxOverrides, len(changes))
	}
	deletions := !slices.ContainsFunc(changes, func(o rules.Override) bool { return !o.Deleted })
	current, err := d.Load(ctx, ruleSet)
	switch {
	case errors.Is(err, rules.ErrNotFound) && deletions && d.OverrideEditor != nil:
		current = &rules.Version{RuleSet: &rules.Set{}} // they wait for it
	case err != nil:
		return err
	}
	wrong, seen := OverrideErrors{}, map[string]int{}
	for i := range changes {
		changes[i].RuleSetID = ruleSet
		err = table.Check(current.RuleSet, &changes[i])
		if err != nil && changes[i].Deleted { // also one that does not fit any more
			err = changes[i].Check()
		}
		if first, again := seen[changes[i].ID()]; again && err == nil {
			err = fmt.Errorf("the same rule and identity as override %d", first)
		}
		if seen[changes[i].ID()] = i; err != nil {
			wrong[i] = err
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// ListOverrides implements [Operator].
func (c *Client) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (page rules.OverridePage, err error) {
	query := url.Values{"limit": {strconv.Itoa(rules.PageSize(limit))}}
	if after != "" {
		query.Set("after", after)
	}
	answer, err := fetch[struct {
		Overrides []rules.Override `json:"overrides"`
		Next      string           `json:"next"`
	}](ctx, c, &call{method: http.MethodGet, path: ruleSetPath(ruleSet, "overrides"), query: query})
	if err == nil {
		page.Overrides, page.Next = answer.Overrides, answer.Next
	}
	return page, err
}

// Override implements [Operator].
func (c *Client) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	o, err := fetch[rules.Override](ctx, c, &call{method: http.MethodGet, path: ruleSetPath(ruleSet, "overrides", id)})
	if err != nil {
		return rules.Override{}, err
	}
	return *o, nil
}

// PutOverrides implements [Operator].
func (c *Client) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override, dryRun bool) (*OverridesChanged, error) {
	body := struct {
		Overrides []rules.Override `json:"overrides"`
	}{changes}
	op := call{method: http.MethodPut, path: ruleSetPath(ruleSet, "overrides"), body: body}
	if dryRun {
		op.query = url.Values{"dryRun": {"true"}}
	}
	return fetch[OverridesChanged](ctx, c, &op)
}
