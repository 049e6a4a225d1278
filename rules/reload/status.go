package reload

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Origin is where a version was loaded from.
type Origin string

// The origins.
const (
	FromSource  Origin = "source"
	FromCopy    Origin = "copy" // the last good copy on disk
	FromNowhere Origin = "none" // there is no rule set
)

// Status is the state of one rule set.
type Status struct {
	RuleSet string
	// Revision is the revision in effect. It is 0 if there is none.
	Revision int64
	Source   Origin
	Rules    int
	// LoadedAt is when this version took effect. CheckedAt is when the source
	// last confirmed it.
	LoadedAt, CheckedAt time.Time
	// Err is why the current content of the source is not in effect. It is nil if it is.
	Err error
	// OverridesErr is why overrides of the source are not in effect. Those that were read
	// before are.
	OverridesErr error
}

// Status returns the state of every id in memory, sorted by id: of rule sets, and of
// requested ids without a rule set.
func (r *Reloader) Status() []Status {
	var all []Status
	for _, s := range r.sets.all() {
		all = append(all, s.snapshot().Status)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.RuleSet, b.RuleSet) })
	return all
}

// Loaded returns the ids of the rule sets in memory, sorted.
func (r *Reloader) Loaded() (ids []string) {
	for _, s := range r.Status() {
		if s.Source != FromNowhere {
			ids = append(ids, s.RuleSet)
		}
	}
	return ids
}

// Current returns the version in effect of a rule set in memory, or nil. Unlike RuleSet it loads
// nothing.
func (r *Reloader) Current(id string) *rules.Version {
	s := r.sets.get(id)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.current.Load()
	if set == nil {
		return nil
	}
	return &rules.Version{Entry: rules.Entry{RuleSetID: id, Head: rules.Head{Revision: s.state.Revision}}, RuleSet: set.Set}
}

// Stats counts since the start.
type Stats struct {
	// Looks counts reads of revisions, Loads reads of a rule set, Swaps versions
	// that were replaced by another, and Failures failed reads and imports.
	Looks, Loads, Swaps, Failures uint64
	// Overrides counts how often overrides have changed.
	Overrides uint64
	// Turned counts requests that got no rule set because too many rule sets
	// were being loaded.
	Turned uint64
	// Resets counts resets of the buckets of a rule set by this process.
	Resets uint64
	// Subscribed counts subscriptions to announcements.
	Subscribed uint64
	Messages   MessageStats
}

// MessageStats counts announcements by result.
type MessageStats struct {
	// Heard ones caused a read of revisions. Unneeded ones are about rule sets
	// that are not in use here. Malformed ones were ignored.
	Heard, Unneeded, Malformed uint64
}

type counters struct {
	mu sync.Mutex
	Stats
}

// add increments a count.
func (c *counters) add(count *uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*count++
}

// Stats returns the counts.
func (r *Reloader) Stats() Stats {
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	return r.counts.Stats
}
