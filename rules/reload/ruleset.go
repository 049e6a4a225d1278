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
	"github.com/fluxgate/fluxgate/rules"
)

// ruleSet is the state of one id: its rule set, or that it has none.
type ruleSet struct {
	id     string
	pinned bool // never dropped

	// current is in effect. Nil means that there is no rule set.
	current atomic.Pointer[fluxgate.Compiled]
	// first is closed when the first attempt to load has ended.
	first chan struct{}
	// firstLook is what the source said before the first load. The reads for it are made by
	// the holder of [firstLooks.reading].
	firstLook *firstLook
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
	// head is what the source said when the version in effect was loaded. A copy has none: it
	// may be of another source, with the same revision.
	head rules.Head
	// refused is the head whose version could not be loaded.
	refused rules.Head
	// lost is whether the source has lost the rule set since it was loaded: it may number
	// other content alike.
	lost bool
	// mark identifies the version in effect for resets. It is empty for a copy.
	mark  string
	reset pendingReset
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

// unconfirmed reports whether a copy is in effect.
func (s *ruleSet) unconfirmed() bool { return s.snapshot().Source == FromCopy }

// unknown reports whether nothing shows that the source has the rule set: the id may be
// invented.
func (s *ruleSet) unknown() bool {
	state := s.snapshot()
	return s.current.Load() == nil && state.Revision == 0 && state.contentErr == nil
}

// has reports whether what the source has is in effect.
func (s *ruleSet) has(head rules.Head) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return head.Revision != 0 && head == s.state.head && !s.state.lost
}

func (s *ruleSet) snapshot() ruleSetState {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Err = cmp.Or(state.Err, state.contentErr)
	return state
}

// install puts a version in effect, for a head of the source or the zero Head.
func (s *ruleSet) install(set *fluxgate.Compiled, revision int64, head rules.Head, from Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Revision, s.state.Source, s.state.LoadedAt, s.state.Rules = revision, from, time.Now(), 0
	s.state.head, s.state.mark = head, ""
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
