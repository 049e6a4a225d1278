// Package overridemap keeps overrides in memory, for sources of rules.
package overridemap

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	case after < s.forgotten || after > s.revision:
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

// Replace makes these all overrides. Those that stay the same keep their revision.
func (m *Map) Replace(list []rules.Override) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[string]map[string]rules.Override{} // by rule set and id
	for ruleSet := range m.sets {
		next[ruleSet] = map[string]rules.Override{}
	}
	for _, o := range list {
		if next[o.RuleSetID] == nil {
			next[o.RuleSetID] = map[string]rules.Override{}
		}
		next[o.RuleSetID][o.ID()] = o
	}
	for ruleSet, overrides := range next {
		m.apply(ruleSet, m.of(ruleSet).changes(overrides))
	}
}

// changes returns what makes these the overrides that exist.
func (s *overrides) changes(next map[string]rules.Override) (changes []rules.Override) {
	for id, was := range s.byID {
		now, stays := next[id]
		switch {
		case !stays:
			changes = append(changes, rules.Override{
				RuleSetID: was.RuleSetID, RuleID: was.RuleID, Identity: was.Identity, Deleted: true,
			})
		case !was.Deleted && now.Times == was.Times && slices.Equal(now.Bands, was.Bands) &&
			now.Until.Equal(was.Until) && now.Reason == was.Reason:
			delete(next, id)
		}
	}
	return slices.AppendSeq(changes, maps.Values(next))
}

// Apply makes changes of a rule set, whatever is there. It returns the last revision.
func (m *Map) Apply(ruleSet string, changes []rules.Override) (revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.apply(ruleSet, changes)
}

func (m *Map) apply(ruleSet string, changes []rules.Override) (revision int64) {
	s := m.of(ruleSet)
	for _, o := range changes {
		s.put(o)
	}
	s.forget()
	if m.sets == nil {
		m.sets = map[string]*overrides{}
	}
	if s.revision > 0 {
		m.sets[ruleSet] = s
	}
	return s.revision
}

func (s *overrides) put(o rules.Override) {
	id := o.ID()
	was, known := s.byID[id]
	if o.Deleted && (!known || was.Deleted) {
		return
	}
	s.revision++
	o.Revision, o.At = s.revision, time.Now().UTC()
	s.byID[id], s.listed = o, nil
}

// forget forgets what was deleted, if that is much.
func (s *overrides) forget() {
	deleted := 0
	for _, o := range s.byID {
		if o.Deleted {
			deleted++
		}
	}
	if deleted <= len(s.byID)-deleted+maxDeleted {
		return
	}
	for id, o := range s.byID {
		if o.Deleted {
			s.forgotten = max(s.forgotten, o.Revision)
			delete(s.byID, id)
		}
	}
}
