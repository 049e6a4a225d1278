package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// ErrLost is wrapped by the error in the status of a rule set that its source
// no longer knows and never deleted. Its last version goes on deciding.
var ErrLost = errors.New("the source no longer knows this rule set, which was never deleted: its data may be lost")

// maxLoads is how many rule sets are read at once.
const maxLoads = 8

// look asks for the revisions of rule sets and loads those that have changed.
// The error is that of the question; what is wrong with one rule set stands in
// its status. A revision that was refused before is tried again only if asked
// to: a hint costs a small read and no more.
func (r *Reloader) look(ctx context.Context, entries []*entry, again bool) error {
	if len(entries) == 0 {
		return nil
	}
	if len(entries) > 1 {
		r.looking.Lock()
		defer r.looking.Unlock()
	}
	r.counts.looks.Add(1)
	asked := time.Now()
	heads, err := r.revisions(ctx, entries)
	if err != nil {
		if ctx.Err() != nil {
			return err // we were told to stop: that says nothing about the source
		}
		for _, e := range entries {
			r.failed(e, err, 0)
		}
		return err
	}
	var loads sync.WaitGroup
	slots := make(chan struct{}, maxLoads)
	for _, e := range entries {
		head, known := heads[e.id]
		if known && r.upToDate(e, head, again) {
			continue
		}
		slots <- struct{}{}
		loads.Go(func() {
			defer func() { <-slots }()
			r.update(ctx, e, head, known, asked)
		})
	}
	loads.Wait()
	return nil
}

func (r *Reloader) revisions(ctx context.Context, entries []*entry) (heads map[string]rules.Head, err error) {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.id
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	defer recoverSource(&err)
	return r.source.Revisions(ctx, ids)
}

// upToDate confirms an entry that already has what the source has.
func (r *Reloader) upToDate(e *entry, head rules.Head, again bool) bool {
	e.mu.Lock()
	same := e.status.Revision == head.Revision && head.Deleted == (e.current.Load() == nil)
	refused := head.Revision == e.refused && e.refused != 0
	if same {
		e.status.Source = FromSource
		if head.Deleted {
			e.status.Source = FromNowhere
		}
	}
	e.mu.Unlock()
	if same {
		r.confirmed(e)
	}
	return same || refused && !again
}

// update brings an entry to where the source stood when it was asked.
func (r *Reloader) update(ctx context.Context, e *entry, head rules.Head, known bool, asked time.Time) {
	e.loading.Lock()
	defer e.loading.Unlock()
	switch {
	case e.snapshot().LoadedAt.After(asked):
		r.hint(e.id) // somebody was faster, and knows better: look again
	case known && head.Deleted:
		had := e.current.Load() != nil
		e.install(nil, head.Revision, FromNowhere, time.Now())
		r.confirmed(e)
		r.copies.remove(e.id)
		if had {
			r.counts.swaps.Add(1)
			level := slog.LevelInfo
			if slices.Contains(r.config.RuleSets, e.id) {
				level = slog.LevelError
			}
			r.config.Logger.Log(ctx, level, "rule set deleted in the source; its requests are decided as without a rule set", "ruleSet", e.id, "revision", head.Revision)
		}
	case known:
		r.load(ctx, e, head)
	case e.current.Load() != nil || !e.loaded() && r.fromCopy(e):
		r.failed(e, ErrLost, 0)
	default:
		if !e.loaded() {
			r.log(e, slog.LevelWarn, "rule set not found in the source; its requests are decided as without a rule set")
		}
		r.confirmed(e)
	}
}

// confirmed notes that the source was asked and has nothing else to say, and
// says so if that is news.
func (r *Reloader) confirmed(e *entry) {
	if e.confirm(time.Now()) {
		r.config.Logger.Info("the rules of the source are in effect again", "ruleSet", e.id, "revision", e.snapshot().Revision)
	}
}

// load reads a rule set and makes it the one that decides.
func (r *Reloader) load(ctx context.Context, e *entry, head rules.Head) {
	before := e.snapshot()
	if before.Revision == head.Revision && e.current.Load() != nil {
		r.confirmed(e) // another load was faster
		return
	}
	r.counts.loads.Add(1)
	version, err := r.read(ctx, e.id)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return
	case errors.Is(err, rules.ErrNotFound) && e.sought != head.Revision:
		e.sought = head.Revision
		r.hint(e.id) // it was deleted a moment ago: look again
		return
	default:
		r.failed(e, err, head.Revision)
		return
	}
	had := e.current.Load() != nil
	e.install(version.RuleSet, version.Revision, FromSource, time.Now())
	r.confirmed(e)
	r.config.Logger.Info("loaded a rule set", "ruleSet", e.id, "revision", version.Revision,
		"rules", version.RuleSet.Len(), "author", version.Author, "comment", version.Comment)
	r.loaded(version.RuleSet)
	if had {
		r.counts.swaps.Add(1)
	}
	if err := r.copies.save(version); err != nil {
		r.config.Logger.Warn("could not keep a copy of a rule set", "ruleSet", e.id, "error", err)
	}
	r.reconcileAgain(ctx, e) // the new version may be the repair
	if had && version.Revision != before.Revision && r.config.ResetBuckets != nil {
		e.mu.Lock()
		e.reset = version.Revision
		e.mu.Unlock()
		r.resetBuckets(ctx, e)
	}
	if dropped := r.table.trim(); dropped != "" {
		r.config.Logger.Warn("dropped a rule set: too many are in use", "ruleSet", dropped, "most", r.config.MaxRuleSets)
	}
}

func (r *Reloader) read(ctx context.Context, id string) (version *rules.Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	defer recoverSource(&err)
	version, err = r.source.Load(ctx, id)
	if err == nil && (version == nil || version.RuleSet == nil || version.RuleSet.ID() != id) {
		return nil, fmt.Errorf("the source answered with something else than rule set %q", id)
	}
	return version, err
}

// failed notes what went wrong. Whoever has nothing to decide by yet begins
// with the last good copy.
func (r *Reloader) failed(e *entry, err error, revision int64) {
	r.counts.failures.Add(1)
	before := e.snapshot().Err
	news := before == nil || before.Error() != err.Error()
	if e.current.Load() == nil && !e.loaded() {
		r.fromCopy(e)
	}
	e.fail(err, revision, time.Now())
	if !news {
		return // it was said before
	}
	now := e.snapshot()
	r.log(e, slog.LevelError, "the rules of the source are not in effect", "serving", now.Source, "revision", now.Revision, "error", err)
}

// log writes what happened to a rule set. Callers can invent ids, so those
// without rules that are not configured share one line a minute.
func (r *Reloader) log(e *entry, level slog.Level, message string, args ...any) {
	args = append([]any{"ruleSet", e.id}, args...)
	if !e.pinned && e.current.Load() == nil {
		ok, suppressed := r.unknown.Allow(time.Now())
		if !ok {
			return
		}
		args = append(args, "suppressed", suppressed)
	}
	r.config.Logger.Log(r.life, level, message, args...)
}

// fromCopy begins with the last good copy, if there is one.
func (r *Reloader) fromCopy(e *entry) bool {
	version, err := r.copies.load(e.id)
	if err != nil {
		r.config.Logger.Warn("could not use the copy of a rule set", "ruleSet", e.id, "error", err)
	}
	if version == nil {
		return false
	}
	e.install(version.RuleSet, version.Revision, FromCopy, time.Now())
	r.loaded(version.RuleSet)
	return true
}

func (r *Reloader) loaded(set *fluxgate.RuleSet) {
	if r.config.Loaded != nil {
		r.config.Loaded(set)
	}
}

// recoverSource makes a panic in a source an error: it must not end the
// gateway.
func recoverSource(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the source panicked: %v", p)
	}
}

// Resetter is a store that makes buckets full. Every [fluxgate.Store] is one.
type Resetter interface {
	Reset(ctx context.Context, what fluxgate.Key) error
}

// OnceResetter is a store that many gateways share, and that can tell whether
// one of them has done a reset already.
type OnceResetter interface {
	// ResetOnce resets like [fluxgate.Store.Reset], unless that was done with
	// the same mark before. It reports whether it did.
	ResetOnce(ctx context.Context, what fluxgate.Key, mark string) (bool, error)
}

// resetBuckets does the reset that a new version asked for. If the store is
// away it is tried again later.
func (r *Reloader) resetBuckets(ctx context.Context, e *entry) {
	e.mu.Lock()
	revision := e.reset
	e.mu.Unlock()
	if revision == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	what, did := fluxgate.Key{RuleSet: e.id}, true
	var err error
	if once, ok := r.config.ResetBuckets.(OnceResetter); ok {
		did, err = once.ResetOnce(ctx, what, fmt.Sprint(revision))
	} else {
		err = r.config.ResetBuckets.Reset(ctx, what)
	}
	if err != nil {
		r.config.Logger.Error("could not reset the buckets of a rule set, will try again", "ruleSet", e.id, "error", err)
		return
	}
	if did {
		r.counts.resets.Add(1)
	}
	e.mu.Lock()
	if e.reset == revision {
		e.reset = 0
	}
	e.mu.Unlock()
}
