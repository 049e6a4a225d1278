package overridestore

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/overridemap"
	"github.com/fluxgate/fluxgate/rules"
)

// Memory keeps overrides in this process. Its zero value is empty.
type Memory struct {
	overridemap.Map
	// Clock returns the time. Nil means time.Now.
	Clock func() time.Time

	mu       sync.Mutex // of changes
	record   rules.OverrideRecord
	restored map[string]int64
	waiting  map[string]time.Time
}

var _ rules.SharedOverrides = (*Memory)(nil)

func (m *Memory) now() time.Time {
	if m.Clock != nil {
		return m.Clock()
	}
	return time.Now()
}

// OverrideState implements [rules.SharedOverrides].
func (m *Memory) OverrideState(ctx context.Context, waiting rules.WaitingRules) (rules.OverrideState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := rules.OverrideState{
		Record: m.record, Now: m.now(), Revisions: m.Revisions(),
		Restored: map[string]int64{}, Waiting: map[string]time.Time{},
	}
	if m.waiting == nil {
		m.waiting = map[string]time.Time{}
	}
	for _, name := range waiting.Missing {
		if _, known := m.waiting[name]; !known {
			m.waiting[name] = state.Now
		}
	}
	for _, name := range waiting.Back {
		delete(m.waiting, name)
	}
	maps.Copy(state.Waiting, m.waiting)
	maps.Copy(state.Restored, m.restored)
	return state, ctx.Err()
}

// PutSharedOverrides implements [rules.SharedOverrides].
func (m *Memory) PutSharedOverrides(
	ctx context.Context, record, next rules.OverrideRecord, ruleSet string, changes []rules.Override,
) (revision int64, err error) {
	if changes, err = rules.CheckOverrides(ruleSet, changes); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record != record {
		return 0, rules.ErrOverrideRecord
	}
	if revision, err = m.Put(ctx, ruleSet, changes); err == nil && revision > 0 && record == (rules.OverrideRecord{}) {
		m.record = next
	}
	return revision, err
}

// BeginRestore implements [rules.SharedOverrides].
func (m *Memory) BeginRestore(ctx context.Context, record rules.OverrideRecord) (rules.OverrideRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record == (rules.OverrideRecord{}) && ctx.Err() == nil {
		m.record = record
	}
	return m.record, ctx.Err()
}

// RestoreOverrides implements [rules.SharedOverrides].
func (m *Memory) RestoreOverrides(ctx context.Context, record rules.OverrideRecord, part *rules.OverrideCopy) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.restored[part.RuleSet]
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m.record != record:
		return rules.ErrOverrideRecord
	case part.Revision <= before:
		return nil
	case before < part.Forgotten:
		if before > 0 && part.First {
			m.Remove(part.RuleSet, part.Forgotten)
		}
		before = 0
	}
	revision := int64(0)
	if part.Last {
		revision = max(m.Revisions()[part.RuleSet], part.Revision, overridemap.Start()) + 1
		if m.restored == nil {
			m.restored = map[string]int64{}
		}
		m.restored[part.RuleSet] = part.Revision
	}
	m.Merge(part.RuleSet, part.Overrides, before, revision, revision)
	return nil
}
