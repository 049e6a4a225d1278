// Package overridemap keeps overrides in memory.
package overridemap

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// maxDeleted is how many deleted overrides of a rule set are kept beside as many as there are.
const maxDeleted = 1_000

// Map is the overrides of rule sets. Its zero value is empty.
type Map struct {
	mu   sync.Mutex
	sets map[string]*overrides
}

var _ rules.Overrides = (*Map)(nil)

type overrides struct {
	revision int64
	// forgotten is the last revision of a deletion that is not known any more.
	forgotten int64
	byID      map[string]rules.Override // and the deleted ones
	live      int                       // those that exist
	// listed are those that exist, by position. It is nil after a change.
	listed []listed
}

type listed struct{ position, id string }

// of returns the overrides of a rule set.
func (m *Map) of(ruleSet string) *overrides {
	return cmp.Or(m.sets[ruleSet], &overrides{byID: map[string]rules.Override{}})
}

// OverrideRevisions implements [rules.Overrides].
func (m *Map) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	revisions := map[string]int64{}
	for _, id := range ruleSets {
		if s := m.sets[id]; s != nil {
			revisions[id] = s.revision
		}
	}
	return revisions, ctx.Err()
}

// OverrideChanges implements [rules.Overrides].
func (m *Map) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (page rules.OverridePage, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(ruleSet)
	switch {
	case ctx.Err() != nil:
		return page, ctx.Err()
	case after > 0 && after < s.forgotten || after > s.revision:
		return page, rules.ErrOverridesLost
	}
	for _, o := range s.byID {
		if o.Revision > after {
			page.Overrides = append(page.Overrides, o)
		}
	}
	slices.SortFunc(page.Overrides, func(a, b rules.Override) int { return cmp.Compare(a.Revision, b.Revision) })
	page.Revision = s.revision
	if most := rules.PageSize(limit); len(page.Overrides) > most {
		page.Overrides, page.Revision = slices.Clone(page.Overrides[:most]), page.Overrides[most-1].Revision
	}
	return page, nil
}

// Override implements [rules.Overrides].
func (m *Map) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.of(ruleSet).byID[id]
	switch {
	case ctx.Err() != nil:
		return rules.Override{}, ctx.Err()
	case !ok || o.Deleted:
		return rules.Override{}, fmt.Errorf("override %s: %w", id, rules.ErrNotFound)
	}
	return o, nil
}

// ListOverrides implements [rules.Overrides].
func (m *Map) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (page rules.OverridePage, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(ruleSet)
	if ctx.Err() != nil {
		return page, ctx.Err()
	}
	if s.listed == nil {
		for id, o := range s.byID {
			if !o.Deleted {
				s.listed = append(s.listed, listed{o.Position(), id})
			}
		}
		slices.SortFunc(s.listed, func(a, b listed) int { return cmp.Compare(a.position, b.position) })
	}
	first, found := slices.BinarySearchFunc(s.listed, after, func(l listed, after string) int { return cmp.Compare(l.position, after) })
	if found {
		first++
	}
	for _, l := range s.listed[first:min(len(s.listed), first+rules.PageSize(limit))] {
		page.Overrides = append(page.Overrides, s.byID[l.id])
		page.Next = l.position
	}
	if len(page.Overrides) < rules.PageSize(limit) {
		page.Next = ""
	}
	return page, nil
}

// Put makes changes of a rule set as [rules.OverrideEditor] does: they were checked by
// [rules.CheckOverrides].
func (m *Map) Put(ctx context.Context, ruleSet string, changes []rules.Override) (revision int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s, added := m.of(ruleSet), 0
	for i := range changes {
		o := &changes[i]
		was, known := s.byID[o.ID()]
		if was.Deleted || !known {
			was.Revision = 0
		}
		switch exists := known && !was.Deleted; {
		case exists && o.Deleted:
			added--
		case !exists && !o.Deleted:
			added++
		}
		if err := o.CheckBase(was.Revision); err != nil {
			return 0, err
		}
	}
	if added > 0 && s.live+added > rules.MaxOverrides {
		return 0, rules.ErrTooManyOverrides
	}
	fresh := s.revision == 0
	if fresh { // as in a source that may lose its data: see OverrideRevisions of rules.Overrides
		s.revision = Start()
		s.forgotten = s.revision
	}
	for _, o := range changes {
		s.put(o)
	}
	if fresh && s.revision == s.forgotten {
		return 0, nil // nothing to delete
	}
	s.forget()
	m.set(ruleSet, s)
	return s.revision, nil
}

// Start is the revision before the first one: it is made of the time, so that no former one is above it.
func Start() int64 { return time.Now().UnixMicro() / 10 }

func (m *Map) set(ruleSet string, s *overrides) {
	if m.sets == nil {
		m.sets = map[string]*overrides{}
	}
	m.sets[ruleSet] = s
}

// Revisions returns the revisions of all rule sets.
func (m *Map) Revisions() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]int64, len(m.sets))
	for id, s := range m.sets {
		all[id] = s.revision
	}
	return all
}

// Merge merges overrides of a copy, each if it has a higher revision than here. One that is not here
// is added if its revision is above known. Then the revision of the rule set is at least this one,
// and deletions up to forgotten are forgotten.
func (m *Map) Merge(ruleSet string, list []rules.Override, known, revision, forgotten int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(ruleSet)
	for _, o := range list {
		was, there := s.byID[o.ID()]
		if o.Revision > was.Revision && (there || o.Revision > known) {
			s.keep(o)
		}
	}
	s.revision, s.forgotten, s.listed = max(s.revision, revision), max(s.forgotten, forgotten), nil
	m.set(ruleSet, s)
}

// Remove removes the overrides of a rule set up to a revision.
func (m *Map) Remove(ruleSet string, upTo int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(ruleSet)
	for id, o := range s.byID {
		if o.Revision <= upTo {
			s.drop(id)
		}
	}
	s.listed = nil
}

// Clear deletes and forgets the overrides of a rule set.
func (m *Map) Clear(ruleSet string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sets[ruleSet]; s != nil && len(s.byID) > 0 {
		s.revision++
		s.forgotten, s.byID, s.live, s.listed = s.revision, map[string]rules.Override{}, 0, nil
	}
}

func (s *overrides) put(o rules.Override) {
	was, known := s.byID[o.ID()]
	if o.Deleted && (!known || was.Deleted) {
		return
	}
	s.revision++
	o.Revision, o.At = s.revision, time.Now().UTC()
	s.keep(o)
	s.listed = nil
}

func (s *overrides) keep(o rules.Override) {
	id := o.ID()
	s.drop(id)
	if s.byID[id] = o; !o.Deleted {
		s.live++
	}
}

func (s *overrides) drop(id string) {
	if was, known := s.byID[id]; known && !was.Deleted {
		s.live--
	}
	delete(s.byID, id)
}

// forget forgets what was deleted, if that is much.
func (s *overrides) forget() {
	if deleted := len(s.byID) - s.live; deleted <= s.live+maxDeleted {
		return
	}
	for id, o := range s.byID {
		if o.Deleted {
			s.forgotten = max(s.forgotten, o.Revision)
			delete(s.byID, id)
		}
	}
}
