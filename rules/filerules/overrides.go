package filerules

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// overrideFile is a file of overrides, with its last valid content.
type overrideFile struct {
	file *Source // nil if there is no file; it has no rule sets

	mu       sync.Mutex
	revision int64 // of the content: its changes are not known
	// sets has each rule set that has had overrides.
	sets map[string]*overrideList
}

// overrideList is the overrides of a rule set.
type overrideList struct {
	positions []string // in order
	at        map[string]rules.Override
}

// openOverrides returns the overrides of a file, which may have no name.
func openOverrides(path string, config Config) (*overrideFile, error) {
	o := &overrideFile{}
	if path == "" {
		return o, nil
	}
	config.Overrides, config.Parse = "", func(_ string, data []byte) ([]*rules.Set, error) {
		list, err := rules.ParseOverrides(bytes.NewReader(data), "")
		if err == nil {
			o.replace(list)
		}
		return nil, err
	}
	var err error
	o.file, err = Open(path, config)
	return o, err
}

func (o *overrideFile) replace(list []rules.Override) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.revision++
	next, now := map[string]*overrideList{}, time.Now().UTC()
	for ruleSet := range o.sets {
		next[ruleSet] = &overrideList{}
	}
	for _, override := range list {
		override.Revision, override.At = o.revision, now
		set := next[override.RuleSetID]
		if set == nil || set.at == nil {
			set = &overrideList{at: map[string]rules.Override{}}
			next[override.RuleSetID] = set
		}
		set.at[override.Position()] = override
	}
	for _, set := range next {
		set.positions = slices.Sorted(maps.Keys(set.at))
	}
	o.sets = next
}

// content returns the overrides of a rule set and their revision, which is 0 if it never had one.
func (o *overrideFile) content(ruleSet string) (list *overrideList, revision int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if list, known := o.sets[ruleSet]; known {
		return list, o.revision
	}
	return &overrideList{}, 0
}

// update reads the file if it has changed. The error is that of its content.
func (o *overrideFile) update(ctx context.Context) (*state, error) {
	if o.file == nil {
		return nil, ctx.Err()
	}
	now, err := o.file.refresh(ctx)
	if err != nil {
		err = fmt.Errorf("reading overrides; the last valid ones stay in effect: %w", err)
	}
	return now, err
}

// OverrideRevisions implements [rules.Overrides]. It returns an error while the file has a
// problem.
func (s *Source) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
	if _, err := s.overrides.update(ctx); err != nil {
		return nil, err
	}
	revisions := map[string]int64{}
	for _, id := range ruleSets {
		if _, revision := s.overrides.content(id); revision > 0 {
			revisions[id] = revision
		}
	}
	return revisions, nil
}

// OverrideChanges implements [rules.Overrides], for the last valid content of the file. After
// a change of the file all overrides are to be read.
func (s *Source) OverrideChanges(ctx context.Context, ruleSet string, after int64, _ int) (rules.OverridePage, error) {
	_, revision := s.overrides.content(ruleSet)
	if after != revision {
		return rules.OverridePage{}, rules.ErrOverridesLost
	}
	return rules.OverridePage{Revision: revision}, ctx.Err()
}

// Override implements [rules.Overrides], for the last valid content of the file.
func (s *Source) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	_, _ = s.overrides.update(ctx) // its error is that of OverrideRevisions
	list, _ := s.overrides.content(ruleSet)
	for position, override := range list.at {
		if strings.HasSuffix(position, id) && override.ID() == id {
			return override, ctx.Err()
		}
	}
	return rules.Override{}, cmp.Or(ctx.Err(), fmt.Errorf("override %s: %w", id, rules.ErrNotFound))
}

// ListOverrides implements [rules.Overrides], for the last valid content of the file.
func (s *Source) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (page rules.OverridePage, err error) {
	_, _ = s.overrides.update(ctx) // its error is that of OverrideRevisions
	list, _ := s.overrides.content(ruleSet)
	first, found := slices.BinarySearch(list.positions, after)
	if found {
		first++
	}
	for _, position := range list.positions[first:min(len(list.positions), first+rules.PageSize(limit))] {
		page.Overrides = append(page.Overrides, list.at[position])
		page.Next = position
	}
	if len(page.Overrides) < rules.PageSize(limit) {
		page.Next = ""
	}
	return page, ctx.Err()
}
