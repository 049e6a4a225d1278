package memrules

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/overridemap"
	"github.com/fluxgate/fluxgate/internal/pendingids"
	"github.com/fluxgate/fluxgate/rules"
)

// Config configures a [Source]. Its zero value works.
type Config struct {
	// History is how many revisions of a rule set are kept. 0 means
	// [rules.DefaultHistory].
	History int
	// HistoryBytes is how many bytes their documents have in total. The last
	// two are always kept. 0 means [rules.DefaultHistoryBytes].
	HistoryBytes int
	// MaxRuleSets is the maximum number of rule sets. Deleted rule sets count,
	// because their revisions must never be used again. 0 means 10,000.
	MaxRuleSets int
	// Now returns the time of a change. Nil means time.Now.
	Now func() time.Time
}

// Source keeps rule sets in memory.
type Source struct {
	overridemap.Map
	config Config

	mu       sync.RWMutex
	sets     map[string]*ruleSet
	watchers map[*pendingids.Set]bool
}

var (
	_ rules.Editor         = (*Source)(nil)
	_ rules.Watcher        = (*Source)(nil)
	_ rules.OverrideEditor = (*Source)(nil)
)

// ruleSet is a rule set and its history.
type ruleSet struct {
	versions []version  // oldest first, without a gap
	bytes    int        // of their documents
	current  *rules.Set // nil if it is deleted
}

// version is a former revision. It has no document if it is a deletion.
type version struct {
	rules.Entry
	document []byte
}

// New returns a source without rules.
func New(config Config) *Source {
	config.History = cmp.Or(max(0, config.History), rules.DefaultHistory)
	config.HistoryBytes = cmp.Or(max(0, config.HistoryBytes), rules.DefaultHistoryBytes)
	config.MaxRuleSets = cmp.Or(max(0, config.MaxRuleSets), 10_000)
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Source{config: config, sets: map[string]*ruleSet{}, watchers: map[*pendingids.Set]bool{}}
}

// last returns the newest entry, or the zero Entry if there is none.
func (r *ruleSet) last() rules.Entry {
	if r == nil || len(r.versions) == 0 {
		return rules.Entry{}
	}
	return r.versions[len(r.versions)-1].Entry
}

// Put implements [rules.Editor].
func (s *Source) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	own, document, err := rules.Encode(set)
	if err != nil {
		return 0, err
	}
	return s.commit(ctx, own.ID(), own, document, change)
}

// Delete implements [rules.Editor].
func (s *Source) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	return s.commit(ctx, id, nil, nil, change)
}

// commit makes a rule set current; nil is a deletion.
func (s *Source) commit(ctx context.Context, id string, set *rules.Set, document []byte, change rules.Change) (int64, error) {
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
	switch {
	case set == nil && change.Base == 0:
		return 0, fmt.Errorf("deleting rule set %q: %w", id, rules.ErrNotFound)
	case kept == nil && len(s.sets) >= s.config.MaxRuleSets:
		return 0, fmt.Errorf("rule set %q: there are already %d rule sets, including deleted ones", id, len(s.sets))
	case kept == nil:
		kept = &ruleSet{}
		s.sets[id] = kept
	}
	entry := rules.Entry{
		RuleSetID: id,
		Head:      rules.Head{Revision: kept.last().Revision + 1, Deleted: set == nil, Commit: rand.Text()},
		Author:    change.Author, Comment: change.Comment, At: s.config.Now().UTC().Round(0),
	}
	if set == nil { // nothing else can write overrides until it is put again
		s.Clear(id)
	}
	kept.current = set
	kept.versions = append(kept.versions, version{entry, document})
	kept.bytes += len(document)
	s.forget(kept)
	for w := range s.watchers {
		w.Add(id)
	}
	return entry.Revision, nil
}

// PutOverrides implements [rules.OverrideEditor].
func (s *Source) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (revision int64, err error) {
	if changes, err = rules.CheckOverrides(ruleSet, changes); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[ruleSet].last().Deleted {
		return 0, fmt.Errorf("overrides of rule set %q, which was deleted: %w", ruleSet, rules.ErrNotFound)
	}
	if revision, err = s.Map.Put(ctx, ruleSet, changes); err != nil {
		return 0, err
	}
	for w := range s.watchers {
		w.Add(ruleSet)
	}
	return revision, nil
}

// forget drops the oldest versions that exceed a limit.
func (s *Source) forget(kept *ruleSet) {
	extra := 0
	for left := len(kept.versions); left > s.config.History || left > 2 && kept.bytes > s.config.HistoryBytes; left-- {
		kept.bytes -= len(kept.versions[extra].document)
		extra++
	}
	kept.versions = slices.Delete(kept.versions, 0, extra)
}

// Watch implements [rules.Watcher]. It misses no change while it runs. Several
// changes of one rule set may be one call, and changes of very many rule sets
// one call with "". It returns the error of ctx.
func (s *Source) Watch(ctx context.Context, changed func(id string)) error {
	w := pendingids.New()
	w.Add("") // for what changed before
	s.mu.Lock()
	s.watchers[w] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}()
	return w.Deliver(ctx, changed)
}
