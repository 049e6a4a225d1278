package rulestest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

func (f *faulty) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	if f.is("returns the revision of the first id alone") {
		ids = ids[:min(1, len(ids))]
	}
	heads, err := f.Source.Revisions(f.context(ctx), ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		head, known := heads[id]
		switch {
		case f.is("knows ids that were never put") && !known:
			heads[id] = rules.Head{Deleted: true}
		case f.is("forgets that a rule set was deleted") && head.Deleted:
			delete(heads, id)
		case f.is("numbers other content alike after a loss") && known:
			heads[id] = rules.Head{Revision: head.Revision, Deleted: head.Deleted}
		}
	}
	return heads, nil
}

func (f *faulty) Load(ctx context.Context, id string) (*rules.Version, error) {
	ctx = f.context(ctx)
	if kept := f.cache[id]; kept != nil && f.is("caches loaded rule sets for ever") {
		return kept, nil
	}
	if err := f.malformed(id); err != nil {
		if f.is("treats malformed content as missing") {
			err = rules.ErrNotFound
		}
		return nil, err
	}
	v, err := f.Source.Load(ctx, id)
	if errors.Is(err, rules.ErrNotFound) {
		former, gone := f.Source.Version(ctx, id, 1)
		switch {
		case f.is("loads nothing without an error"):
			return nil, nil
		case f.is("loads a deleted rule set") && gone == nil:
			return former, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if f.is("caches loaded rule sets for ever") {
		f.cache[id] = v
	}
	if f.is("shows new rules under the old revision") && v.Revision > 1 {
		v.Revision -= f.calls.Add(1) % 2
	}
	if f.is("returns another revision on every load") {
		v.Revision += f.calls.Add(1)
	}
	return f.mistaken(v), nil
}

// mistaken returns a version with a fault.
func (f *faulty) mistaken(v *rules.Version) *rules.Version {
	if v.RuleSet != nil {
		switch {
		case f.is("loses a field"):
			v.RuleSet = edited(v.RuleSet, func(r *rules.Rule) { r.Group = "" })
		case f.is("loses the cost tables"):
			v.RuleSet = fluxgate.Must(v.RuleSet.WithCostTables(nil))
		case f.is("rounds numbers"):
			v.RuleSet = edited(v.RuleSet, func(r *rules.Rule) {
				if _, ok := r.Attributes["beyond a double"]; ok {
					r.Attributes["beyond a double"] = int64(9007199254740992)
				}
			})
		}
	}
	if f.is("numbers other content alike after a loss") || f.is("loads another head than it shows") {
		v.Commit = ""
	}
	if f.is("dates nothing") {
		v.At = time.Time{}
	}
	return v
}

func (f *faulty) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	ctx = f.context(ctx)
	if f.is("restores the neighbouring version after a while") && f.calls.Add(1) > 20 {
		revision++
	}
	v, err := f.Source.Version(ctx, id, revision)
	current, gone := f.Source.Load(ctx, id)
	switch {
	case gone == nil && err != nil && f.is("has a version for every number"):
		return current, nil
	case gone == nil && err == nil && f.is("has the current rules for every revision"):
		v.RuleSet = current.RuleSet
	case gone != nil && f.is("deletes the history too"):
		return nil, rules.ErrNotFound
	case err == nil && v.Deleted && f.is("restores a deletion as no rules"):
		v.RuleSet, err = rules.NewSet(id)
	case err == nil && !v.Deleted && f.is("restores other bytes"):
		v.RuleSet = edited(v.RuleSet, func(r *rules.Rule) { r.UpdatedAt = v.At })
	}
	if err != nil {
		return nil, err
	}
	return f.mistaken(v), nil
}

func (f *faulty) History(ctx context.Context, id string, before int64, limit int) ([]rules.Entry, error) {
	switch {
	case limit == 0 && f.is("returns nothing for a limit of zero"):
		return nil, nil
	case before > 1 && f.is("repeats an entry on the next page"):
		before++
	case before > 1 && f.is("leaves out an entry on the next page"):
		before--
	}
	page, err := f.Source.History(f.context(ctx), id, before, limit)
	switch {
	case f.is("lists the oldest first"):
		slices.Reverse(page)
	case f.is("deletes the history too") && len(page) > 0 && page[0].Deleted:
		page = page[:1]
	case f.is("forgets the former revision if it is large") && len(page) == 2 && page[0].Revision > 2:
		page = page[:1] // a history of two large revisions
	case f.is("forgets the former revision if it is large") && len(page) == 1 && before > 2:
		page = nil
	}
	return page, err
}

func (f *faulty) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	page, err := f.Source.List(f.context(ctx), after, limit)
	switch {
	case f.is("lists a deleted rule set") && len(page) == 0:
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, e := range f.deleted {
			if e.RuleSetID > after {
				page = append(page, e)
			}
		}
	case f.is("lists an id again on the next page") && len(page) > 0:
		page[0].RuleSetID = after
	case f.is("lists one id less") && limit > 3:
		page = page[min(1, len(page)):]
	case f.is("lists without the comment"):
		for i := range page {
			page[i].Comment = ""
		}
	}
	return page, err
}

func (f *faulty) Watch(ctx context.Context, changed func(id string)) error {
	err := f.Source.Watch(ctx, func(id string) {
		if !f.is("notifies no watcher") && id != "" || !f.is("does not report that it has begun to watch") && id == "" {
			changed(id)
		}
	})
	if f.is("watches for ever") {
		<-f.meeting // no other call arrives
	}
	return err
}

// Unimported implements [rules.Reconciler]: there is nothing to import.
func (f *faulty) Unimported(context.Context, []string) ([]string, error) { return nil, nil }

// Reconcile implements [rules.Reconciler]: there is nothing to import.
func (f *faulty) Reconcile(ctx context.Context, id string) (bool, error) {
	if v, err := f.Source.Load(ctx, id); err == nil && f.is("imports unchanged content") {
		_, _ = f.Source.Put(ctx, v.RuleSet, rules.Change{Base: v.Revision, Author: "reconciler"})
	}
	return false, nil
}
