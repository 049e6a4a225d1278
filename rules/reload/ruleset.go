package reload

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/snapshotmap"
)

// ruleSet is the state of one id: its rule set, or that it has none.
type ruleSet struct {
	id     string
	pinned bool // never dropped

	// current is in effect. Nil means that there is no rule set.
	current atomic.Pointer[fluxgate.Compiled]
	// first is closed when the first attempt to load has ended.
	first chan struct{}
	// used is when a request last used it, by the count of ids.
	used atomic.Int64

	// loading is held while the source is read for this rule set. Locks that are
	// held during reads are semaphores, so that a wait for one ends with a
	// context.
	loading *semaphore.Weighted
	// reconciling is held while the source imports edits, so that the result of
	// an earlier import does not replace that of a later one.
	reconciling *semaphore.Weighted
	// importing is whether reconcileAll has a call for this rule set that has not
	// returned.
	importing atomic.Bool

	// overriding is held while overrides are read, and guards which are known.
	overriding *semaphore.Weighted
	overrides  overridesKnown

	mu    sync.Mutex // guards the state
	state ruleSetState
}

// ruleSetState is the state of a rule set beside its rules.
type ruleSetState struct {
	Status
	// contentErr is why the source could not import an edit. It stays until an
	// import succeeds, even while loads succeed.
	contentErr error
	// refused is the revision that could not be loaded.
	refused int64
	// lost is whether the source has lost the rule set since it was loaded: it may number
	// other content alike.
	lost bool
	// reset is the revision whose bucket reset is pending.
	reset int64
}

// touch records that a request has used the rule set. It writes only after an id was added,
// because a write on every request would contend between cores.
func (s *ruleSet) touch(count int64) {
	if s.used.Load() != count {
		s.used.Store(count)
	}
}

// loaded reports whether the first attempt to load has ended.
func (s *ruleSet) loaded() bool {
	select {
	case <-s.first:
		return true
	default:
		return false
	}
}

// unconfirmed reports whether the first attempt to load has not ended and a copy is
// in effect. That attempt replaces it even if the revisions are equal: a source that
// was created anew counts from 1 again.
func (s *ruleSet) unconfirmed() bool { return !s.loaded() && s.snapshot().Source == FromCopy }

func (s *ruleSet) snapshot() ruleSetState {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Err = cmp.Or(state.Err, state.contentErr)
	return state
}

// install puts a version in effect.
func (s *ruleSet) install(set *fluxgate.Compiled, revision int64, from Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Revision, s.state.Source, s.state.LoadedAt, s.state.Rules = revision, from, time.Now(), 0
	if set != nil {
		s.state.Rules = set.Len()
	}
	s.current.Store(set)
	s.state.lost = false
}

// ruleSets has the state of each id. It is read on every request and rarely
// changed.
type ruleSets struct {
	snapshotmap.Map[string, *ruleSet]
	mu sync.Mutex // held while ids are counted, and added or dropped for that
	// most and mostUnknown bound how many ids have a rule set and how many
	// have none: unknown ids must not replace rule sets.
	most, mostUnknown int
	// count is how many ids were added. It orders their uses.
	count atomic.Int64
}

func newRuleSets(most int) *ruleSets {
	return &ruleSets{most: most, mostUnknown: max(16, most/4)}
}

func (t *ruleSets) get(id string) *ruleSet { return t.Entries()[id] }

func (t *ruleSets) all() []*ruleSet { return slices.Collect(maps.Values(t.Entries())) }

// add returns the state of an id and whether it is new, or nil if too many ids
// are being loaded.
func (t *ruleSets) add(id string, pinned bool) (s *ruleSet, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.get(id); s != nil {
		return s, false
	}
	if _, ok := t.makeRoom(false, t.mostUnknown-1); !ok && !pinned {
		return nil, false
	}
	s = &ruleSet{
		id: id, pinned: pinned, first: make(chan struct{}), state: ruleSetState{Status: Status{RuleSet: id, Source: FromNowhere}},
		loading: semaphore.NewWeighted(1), reconciling: semaphore.NewWeighted(1),
		overriding: semaphore.NewWeighted(1),
	}
	t.count.Add(1)
	return t.Add(id, math.MaxInt, func() *ruleSet { return s })
}

// trim drops the least recently used rule set if there are too many.
func (t *ruleSets) trim() (dropped string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	dropped, _ = t.makeRoom(true, t.most)
	return dropped
}

// makeRoom drops the least recently used id if there are too many with or without
// rules. It reports whether there is room. The lock is held.
func (t *ruleSets) makeRoom(withRules bool, most int) (dropped string, ok bool) {
	n := 0
	var oldest *ruleSet
	for _, s := range t.Entries() {
		if (s.current.Load() != nil) != withRules {
			continue
		}
		n++
		if !s.pinned && s.loaded() && (oldest == nil || s.used.Load() < oldest.used.Load()) {
			oldest = s
		}
	}
	if n <= most || oldest == nil {
		return "", n <= most
	}
	t.Drop(func(_ string, s *ruleSet) bool { return s == oldest })
	return oldest.id, true
}
