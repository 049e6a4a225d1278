package reload

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
)

// entry is what is known about one rule set, or about an id that has none.
type entry struct {
	id     string
	pinned bool // never dropped

	// current decides requests. Nil means that there is no rule set.
	current atomic.Pointer[fluxgate.RuleSet]
	// first is closed when the first attempt to load has ended.
	first chan struct{}
	// used is the round of polls in which a request last asked for it.
	used atomic.Int64

	// loading is held while the source is read for this rule set.
	loading sync.Mutex
	// sought is the revision that was not there when it was read, guarded by
	// loading.
	sought int64

	mu     sync.Mutex // guards what follows
	status Status
	// contentErr is why the source could not import an edit of its content. It
	// stays until an import succeeds, also while loads succeed.
	contentErr   error
	contentErrAt time.Time
	// refused is the revision that could not be loaded.
	refused int64
	// reset is the revision whose reset of buckets is still to be done.
	reset int64
}

func newEntry(id string, pinned bool) *entry {
	return &entry{
		id: id, pinned: pinned, first: make(chan struct{}),
		status: Status{RuleSet: id, Source: FromNowhere},
	}
}

// touch notes that a request asked for the rule set. It writes once a round,
// because a write on every request would be shared by all cores.
func (e *entry) touch(round int64) {
	if e.used.Load() != round {
		e.used.Store(round)
	}
}

// loaded reports whether the first attempt to load has ended.
func (e *entry) loaded() bool {
	select {
	case <-e.first:
		return true
	default:
		return false
	}
}

func (e *entry) snapshot() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	if s.Err == nil && e.contentErr != nil {
		s.Err, s.ErrAt = e.contentErr, e.contentErrAt
	}
	return s
}

// setContentError notes the result of an import, and reports whether it differs
// from the one before.
func (e *entry) setContentError(err error, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.contentErr
	e.contentErr = err
	if err == nil || before == nil {
		e.contentErrAt = now
		return (err == nil) != (before == nil)
	}
	return err.Error() != before.Error()
}

// invalidContent reports whether the source has an edit that is not imported.
func (e *entry) invalidContent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.contentErr != nil
}

// install makes a version the one that decides.
func (e *entry) install(set *fluxgate.RuleSet, revision int64, from Origin, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Revision, e.status.Source, e.status.LoadedAt = revision, from, now
	e.status.Rules = 0
	if set != nil {
		e.status.Rules = set.Len()
	}
	e.current.Store(set)
}

// confirm notes that the source was asked and has nothing else to say. It
// reports whether there was an error before.
func (e *entry) confirm(now time.Time) (mended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	mended = e.status.Err != nil
	e.status.CheckedAt, e.status.Err, e.status.ErrAt = now, nil, time.Time{}
	e.refused = 0
	return mended
}

// fail notes what went wrong, with a revision if it is that one's fault.
func (e *entry) fail(err error, revision int64, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Err, e.status.ErrAt = err, now
	e.refused = revision
}
