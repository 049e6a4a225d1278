// Package overridemap keeps overrides in memory, for sources of rules.
package overridemap

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// maxDeleted is how many deleted overrides of a rule set are kept beside as many as there are.
const maxDeleted = 1_000

// Map is the overrides of rule sets. Its zero value is empty.
type Map struct {
	mu   sync.RWMutex
	sets map[string]*overrides
}

var _ rules.OverrideEditor = (*Map)(nil)

type overrides struct {
	revision int64
	// forgotten is the last revision of a deletion that is not known any more.
	forgotten     int64
	byID          map[string]rules.Override
	there, before int // how many there are, and how many were deleted
}

// OverrideRevisions implements [rules.Overrides].
func (m *Map) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	revisions := map[string]int64{}
	for _, id := range ruleSets {
		if s := m.sets[id]; s != nil {
			revisions[id] = s.revision
		}
	}
	return revisions, ctx.Err()
}

// OverrideChanges implements [rules.Overrides].
func (m *Map) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) ([]rules.Override, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.sets[ruleSet]
	switch {
	case ctx.Err() != nil || s == nil:
		return nil, ctx.Err()
	case after != 0 && after < s.forgotten || after > s.revision:
		return nil, rules.ErrOverridesLost
	}
	return s.page(limit,
		func(o *rules.Override) bool { return o.Revision > after && (after > 0 || !o.Deleted) },
		func(a, b rules.Override) int { return cmp.Compare(a.Revision, b.Revision) }), nil
}

// page returns the first overrides of those that are chosen.
func (s *overrides) page(limit int, chosen func(*rules.Override) bool, order func(a, b rules.Override) int) []rules.Override {
	var page []rules.Override
	for _, o := range s.byID {
		if chosen(&o) {
			page = append(page, o)
		}
	}
	slices.SortFunc(page, order)
	return page[:min(len(page), rules.PageSize(limit))]
}

// Override implements [rules.Overrides].
func (m *Map) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if s := m.sets[ruleSet]; s != nil {
		if o, ok := s.byID[id]; ok && !o.Deleted {
			return o, ctx.Err()
		}
	}
	if ctx.Err() != nil {
		return rules.Override{}, ctx.Err()
	}
	return rules.Override{}, fmt.Errorf("override %s: %w", id, rules.ErrNotFound)
}

// ListOverrides implements [rules.Overrides].
func (m *Map) ListOverrides(ctx context.Context, ruleSet, after string, limit int) ([]rules.Override, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.sets[ruleSet]
	if s == nil || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	last, ok := s.byID[after]
	if after != "" && !ok {
		return nil, fmt.Errorf("override %s: %w", after, rules.ErrNotFound)
	}
	return s.page(limit,
		func(o *rules.Override) bool { return !o.Deleted && (after == "" || byEnd(last, *o) < 0) }, byEnd), nil
}

func byEnd(a, b rules.Override) int {
	end := func(o *rules.Override) int64 {
		if o.Until.IsZero() {
			return math.MaxInt64
		}
		return o.Until.UnixMicro()
	}
	return cmp.Or(cmp.Compare(end(&a), end(&b)), cmp.Compare(a.ID(), b.ID()))
}

// PutOverrides implements [rules.OverrideEditor].
func (m *Map) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (revision int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sets[ruleSet]
	if s == nil {
		s = &overrides{byID: map[string]rules.Override{}}
	}
	added := 0
	for i := range changes {
		o := &changes[i]
		id := o.ID()
		was, exists := s.byID[id]
		if exists = exists && !was.Deleted; !exists {
			was.Revision = 0
		}
		if err := o.CheckBase(was.Revision); err != nil {
			return 0, err
		}
		if !exists && !o.Deleted {
			added++
		}
	}
	if s.there+added > rules.MaxOverrides {
		return 0, rules.ErrTooManyOverrides
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	for _, o := range changes {
		s.put(o)
	}
	if m.sets == nil {
		m.sets = map[string]*overrides{}
	}
	m.sets[ruleSet] = s
	return s.revision, nil
}

func (s *overrides) put(o rules.Override) {
	id := o.ID()
	was, known := s.byID[id]
	if o.Deleted && (!known || was.Deleted) {
		return
	}
	s.revision++
	o.Revision = s.revision
	if o.At.IsZero() {
		o.At = time.Now()
	}
	s.byID[id] = o
	if known && was.Deleted {
		s.before--
	} else if known {
		s.there--
	}
	if o.Deleted {
		s.before++
	} else {
		s.there++
	}
	if s.before > s.there+maxDeleted {
		s.forget()
	}
}

// forget forgets what was deleted.
func (s *overrides) forget() {
	for id, o := range s.byID {
		if o.Deleted {
			s.forgotten = max(s.forgotten, o.Revision)
			delete(s.byID, id)
		}
	}
	s.before = 0
}
