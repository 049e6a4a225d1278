package memrules

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fluxgate/fluxgate/rules"
)

// Revisions implements [rules.Source].
func (s *Source) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	heads := make(map[string]rules.Head)
	for _, id := range ids {
		if kept, ok := s.sets[id]; ok {
			heads[id] = kept.last().Head
		}
	}
	return heads, nil
}

// Load implements [rules.Source].
func (s *Source) Load(ctx context.Context, id string) (*rules.Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	kept := s.sets[id]
	if kept == nil || kept.current == nil {
		return nil, fmt.Errorf("loading rule set %q: %w", id, rules.ErrNotFound)
	}
	return &rules.Version{Entry: kept.last(), RuleSet: kept.current}, nil
}

// List implements [rules.Editor].
func (s *Source) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var page []rules.Entry
	for _, id := range slices.Sorted(maps.Keys(s.sets)) {
		if len(page) == rules.PageSize(limit) {
			break
		}
		if kept := s.sets[id]; id > after && kept.current != nil {
			page = append(page, kept.last())
		}
	}
	return page, nil
}

// History implements [rules.Editor].
func (s *Source) History(ctx context.Context, id string, before int64, limit int) ([]rules.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var page []rules.Entry
	if kept := s.sets[id]; kept != nil {
		for _, v := range slices.Backward(kept.versions) {
			if len(page) == rules.PageSize(limit) {
				break
			}
			if before == 0 || v.Revision < before {
				page = append(page, v.Entry)
			}
		}
	}
	return page, nil
}

// Version implements [rules.Editor].
func (s *Source) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v := s.version(id, revision)
	if v == nil {
		return nil, fmt.Errorf("reading revision %d of rule set %q: %w", revision, id, rules.ErrNotFound)
	}
	return rules.Decode(v.Entry, v.document)
}

func (s *Source) version(id string, revision int64) *version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if kept := s.sets[id]; kept != nil {
		for _, v := range kept.versions {
			if v.Revision == revision {
				return &v
			}
		}
	}
	return nil
}
