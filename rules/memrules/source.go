package memrules

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Config is how a [Source] is made. Its zero value works.
type Config struct {
	// History is how many revisions of a rule set are kept. 0 means
	// [rules.DefaultHistory].
	History int
	// HistoryBytes is how many bytes their documents have together. The last
	// two are kept whatever their size. 0 means [rules.DefaultHistoryBytes].
	HistoryBytes int
	// MaxRuleSets is how many rule sets there may be, deleted ones included:
	// their revisions are never used again, so they are never forgotten. 0
	// means 10,000.
	MaxRuleSets int
	// Now is the time of a change. Nil means the machine's.
	Now func() time.Time
}

// Source keeps rule sets in memory.
type Source struct {
	history      int
	historyBytes int
	maxRuleSets  int
	now          func() time.Time

	mu       sync.RWMutex
	sets     map[string]*ruleSet
	watchers map[*watcher]struct{}
}

var (
	_ rules.Editor  = (*Source)(nil)
	_ rules.Watcher = (*Source)(nil)
)

// ruleSet is a rule set and where it came from.
type ruleSet struct {
	versions []version         // oldest first, without a gap
	bytes    int               // of their documents
	current  *fluxgate.RuleSet // nil if it is deleted
}

// version is a former revision. It has no document if it is a deletion.
type version struct {
	rules.Entry
	document []byte
}

// New makes a source without rules.
func New(config Config) *Source {
	s := &Source{
		history: rules.DefaultHistory, historyBytes: rules.DefaultHistoryBytes, maxRuleSets: 10_000, now: time.Now,
		sets: map[string]*ruleSet{}, watchers: map[*watcher]struct{}{},
	}
	if config.History > 0 {
		s.history = config.History
	}
	if config.HistoryBytes > 0 {
		s.historyBytes = config.HistoryBytes
	}
	if config.MaxRuleSets > 0 {
		s.maxRuleSets = config.MaxRuleSets
	}
	if config.Now != nil {
		s.now = config.Now
	}
	return s
}

// last is the newest entry, the zero Entry where there never was one.
func (r *ruleSet) last() rules.Entry {
	if r == nil || len(r.versions) == 0 {
		return rules.Entry{}
	}
	return r.versions[len(r.versions)-1].Entry
}

// Put implements [rules.Editor].
func (s *Source) Put(ctx context.Context, set *fluxgate.RuleSet, change rules.Change) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := change.Check(); err != nil {
		return 0, err
	}
	own, document, err := rules.Encode(set)
	if err != nil {
		return 0, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.sets[own.ID()]
	if err := change.CheckHead(own.ID(), kept.last().Head); err != nil {
		return 0, err
	}
	if kept == nil {
		if len(s.sets) >= s.maxRuleSets {
			return 0, fmt.Errorf("rule set %q: there are %d rule sets already, deleted ones included", own.ID(), len(s.sets))
		}
		kept = &ruleSet{}
		s.sets[own.ID()] = kept
	}
	return s.commit(own.ID(), kept, own, document, change), nil
}

// Delete implements [rules.Editor].
func (s *Source) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := change.Check(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.sets[id]
	if err := change.CheckHead(id, kept.last().Head); err != nil {
		return 0, err
	}
	if kept == nil || kept.current == nil {
		return 0, fmt.Errorf("deleting rule set %q: %w", id, rules.ErrNotFound)
	}
	return s.commit(id, kept, nil, nil, change), nil
}

// forget drops the oldest versions that are beyond a bound.
func (s *Source) forget(kept *ruleSet) {
	extra := 0
	for left := len(kept.versions); left > s.history || left > 2 && kept.bytes > s.historyBytes; left-- {
		kept.bytes -= len(kept.versions[extra].document)
		extra++
	}
	kept.versions = slices.Delete(kept.versions, 0, extra)
}

// commit makes a rule set, or none, the current one and tells everybody.
func (s *Source) commit(id string, kept *ruleSet, set *fluxgate.RuleSet, document []byte, change rules.Change) int64 {
	entry := rules.Entry{
		RuleSetID: id,
		Head:      rules.Head{Revision: kept.last().Revision + 1, Deleted: set == nil},
		Author:    change.Author, Comment: change.Comment, At: s.now().UTC().Round(0),
	}
	kept.current = set
	kept.versions = append(kept.versions, version{entry, document})
	kept.bytes += len(document)
	s.forget(kept)
	for w := range s.watchers {
		w.tell(id)
	}
	return entry.Revision
}
