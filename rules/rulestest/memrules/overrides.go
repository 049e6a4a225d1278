package memrules

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

// overrideMap is the overrides of rule sets. Its zero value is empty.
type overrideMap struct {
	mu   sync.Mutex
	sets map[string]*overrides
}

var _ rules.Overrides = (*overrideMap)(nil)

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
func (m *overrideMap) of(ruleSet string) *overrides {
	return cmp.Or(m.sets[ruleSet], &overrides{byID: map[string]rules.Override{}})
}

// OverrideRevisions implements [rules.Overrides].
func (m *overrideMap) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
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
func (m *overrideMap) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (page rules.OverridePage, err error) {
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
func (m *overrideMap) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
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
func (m *overrideMap) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (page rules.OverridePage, err error) {
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

// apply makes changes of a rule set, whatever is there. It returns the last revision.
func (m *overrideMap) apply(ruleSet string, changes []rules.Override) (revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(ruleSet)
	fresh := s.revision == 0
	if fresh { // as in a source that may lose its data: see OverrideRevisions of rules.Overrides
		s.revision = time.Now().UnixMicro() / 10
		s.forgotten = s.revision
	}
	for _, o := range changes {
		s.put(o)
	}
	if fresh && s.revision == s.forgotten {
		return 0 // nothing to delete
	}
	s.forget()
	if m.sets == nil {
		m.sets = map[string]*overrides{}
	}
	m.sets[ruleSet] = s
	return s.revision
}

// clear deletes and forgets the overrides of a rule set.
func (m *overrideMap) clear(ruleSet string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sets[ruleSet]; s != nil && len(s.byID) > 0 {
		s.revision++
		s.forgotten, s.byID, s.listed = s.revision, map[string]rules.Override{}, nil
	}
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
