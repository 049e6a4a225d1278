package reload

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Origin is where a version came from.
type Origin string

// The origins.
const (
	FromSource  Origin = "source"
	FromCopy    Origin = "copy" // the last good copy on disk
	FromNowhere Origin = "none" // there is no rule set
)

// Status is how things stand with one rule set.
type Status struct {
	RuleSet string
	// Revision is the one that decides, 0 if there is none.
	Revision int64
	Source   Origin
	Rules    int
	// LoadedAt is when this version began to decide. CheckedAt is when the
	// source last confirmed it.
	LoadedAt, CheckedAt time.Time
	// Err is why the source's word is not in effect, since ErrAt. Nil means
	// that all is well.
	Err   error
	ErrAt time.Time
}

// Status has an entry for every id that is kept, by id: rule sets, and ids
// that were asked for and have none.
func (r *Reloader) Status() []Status {
	var all []Status
	for _, e := range r.table.all() {
		all = append(all, e.snapshot())
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.RuleSet, b.RuleSet) })
	return all
}

// Stats counts since the start.
type Stats struct {
	// Looks is how often revisions were asked for, Loads how often a rule set
	// was read, Swaps how often a version was replaced by another, and
	// Failures how often a look or a load failed.
	Looks, Loads, Swaps, Failures uint64
	// Turned is how many requests for rule sets that were not loaded were
	// turned away because too many were being loaded.
	Turned uint64
	// Resets is how often this gateway reset the buckets of a rule set.
	Resets uint64
	// Subscribed is how often listening for announcements began.
	Subscribed uint64
	Messages   MessageStats
}

// MessageStats counts announcements by what became of them.
type MessageStats struct {
	// Heard ones asked for a look. Unneeded ones are about rule sets that are
	// not in use here. Malformed ones were ignored.
	Heard, Unneeded, Malformed uint64
}

type counters struct {
	looks, loads, swaps, failures, turned, resets, subscribed atomic.Uint64
	heard, unneeded, malformed                                atomic.Uint64
}

// Stats returns the counts.
func (r *Reloader) Stats() Stats {
	c := &r.counts
	return Stats{
		Looks: c.looks.Load(), Loads: c.loads.Load(), Swaps: c.swaps.Load(), Failures: c.failures.Load(),
		Turned: c.turned.Load(), Resets: c.resets.Load(), Subscribed: c.subscribed.Load(),
		Messages: MessageStats{Heard: c.heard.Load(), Unneeded: c.unneeded.Load(), Malformed: c.malformed.Load()},
	}
}
