package reload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// ErrLost is wrapped by the error in the status of a rule set that is missing in
// its source without a deletion. Its last version stays in effect.
var ErrLost = errors.New("rule set missing in the source without a deletion; the source may have lost data")

// maxLoads is how many rule sets are loaded at once.
const maxLoads = 8

// refresh reads the revisions of rule sets and loads those that have changed. It
// returns the error of reading revisions or of ctx; errors of rule sets are in their
// status. A revision that failed to load is tried again only with retry, so that a
// hint costs no more than a small read.
func (r *Reloader) refresh(ctx context.Context, sets []*ruleSet, retry bool) error {
	if len(sets) == 0 {
		return nil
	}
	r.counts.add(&r.counts.Looks)
	asked := time.Now()
	var heads map[string]rules.Head
	err := r.call(ctx, func(ctx context.Context) (err error) {
		heads, err = r.source.Revisions(ctx, idsOf(sets))
		return err
	})
	if err != nil {
		for _, s := range sets {
			r.failed(ctx, s, err, 0)
		}
		return err
	}
	var loads errgroup.Group
	loads.SetLimit(maxLoads)
	for _, s := range sets {
		head, known := heads[s.id]
		if !known || !r.upToDate(s, head, retry) {
			loads.Go(func() error { return r.update(ctx, s, head, known, asked) })
		}
	}
	err = loads.Wait()
	r.readOverrides(ctx, sets, nil)
	return err
}

func idsOf(sets []*ruleSet) []string {
	ids := make([]string, len(sets))
	for i, s := range sets {
		ids[i] = s.id
	}
	return ids
}

// call calls the source within the timeout. A panic becomes an error, so that it
// does not end the gateway.
func (r *Reloader) call(ctx context.Context, call func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	defer recoverSource(&err)
	return call(ctx)
}

func recoverSource(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the source panicked: %v", p)
	}
}

// upToDate reports whether a rule set needs no load.
func (r *Reloader) upToDate(s *ruleSet, head rules.Head, retry bool) bool {
	unconfirmed := s.unconfirmed()
	s.mu.Lock()
	same := !unconfirmed && !s.state.lost && s.state.Revision == head.Revision && head.Deleted == (s.current.Load() == nil)
	refused := head.Revision == s.state.refused && s.state.refused != 0
	if same {
		s.state.Source = FromSource
		if head.Deleted {
			s.state.Source = FromNowhere
		}
	}
	s.mu.Unlock()
	if same {
		r.confirm(s)
	}
	return same || refused && !retry
}

// update brings a rule set to the revision that the source had at the time asked.
// It returns only the error of ctx.
func (r *Reloader) update(ctx context.Context, s *ruleSet, head rules.Head, known bool, asked time.Time) error {
	if err := s.loading.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.loading.Release(1)
	switch {
	case s.snapshot().LoadedAt.After(asked):
		r.hint(s.id) // a later answer may have been loaded already
	case known && head.Deleted:
		had := s.current.Load() != nil
		s.install(nil, head.Revision, FromNowhere)
		r.confirm(s)
		r.copies.remove(s.id)
		if had {
			r.counts.add(&r.counts.Swaps)
			level := slog.LevelInfo
			if s.pinned {
				level = slog.LevelError
			}
			r.config.Logger.Log(ctx, level, "rule set deleted in the source",
				"ruleSet", s.id, "revision", rules.ShownRevision(head.Revision))
		}
	case known:
		r.load(ctx, s, head)
	case s.current.Load() != nil || !s.loaded() && r.fromCopy(s):
		r.failed(ctx, s, ErrLost, 0)
	default:
		if !s.loaded() {
			r.log(s, slog.LevelWarn, "rule set not found in the source")
		}
		r.confirm(s)
	}
	return nil
}

// confirm records that the source has nothing newer.
func (r *Reloader) confirm(s *ruleSet) {
	s.mu.Lock()
	before := s.state
	s.state.CheckedAt, s.state.Err, s.state.refused = time.Now(), nil, 0
	s.mu.Unlock()
	if before.Err != nil {
		r.config.Logger.Info("rules can be loaded again", "ruleSet", s.id, "revision", rules.ShownRevision(before.Revision))
	}
}

// load reads a rule set and puts it in effect.
func (r *Reloader) load(ctx context.Context, s *ruleSet, head rules.Head) {
	before, had := s.snapshot(), s.current.Load() != nil && !s.unconfirmed()
	if before.Revision == head.Revision && had && !before.lost {
		r.confirm(s) // another load was faster
		return
	}
	r.counts.add(&r.counts.Loads)
	version, set, err := r.read(ctx, s.id)
	if err != nil {
		r.failed(ctx, s, err, head.Revision)
		return
	}
	// Before the first version, or one with other keys, decides requests.
	r.readOverrides(ctx, []*ruleSet{s}, set)
	s.install(set, version.Revision, FromSource)
	r.trim() // before a waiting request goes on
	r.confirm(s)
	r.logLoaded(version, had || s.pinned)
	r.loaded(version.RuleSet)
	if err := r.copies.save(version); err != nil {
		r.config.Logger.Warn("cannot save a copy of a rule set: a start without the source would use an older one",
			"ruleSet", s.id, "error", err)
	}
	// The new version may repair invalid content.
	r.work.Go(func(ctx context.Context) { r.reconcileAgain(ctx, s) })
	if had {
		r.counts.add(&r.counts.Swaps)
		if (version.Revision != before.Revision || before.lost) && r.config.ResetBuckets != nil {
			s.mu.Lock()
			s.state.reset = version.Revision
			s.mu.Unlock()
			r.resetBuckets(ctx, s)
		}
	}
}

// trim keeps the number of rule sets within its bound.
func (r *Reloader) trim() {
	if dropped := r.sets.trim(); dropped != "" {
		r.dropOverrides(dropped)
		r.drops.Log(context.Background(), r.config.Logger, slog.LevelWarn,
			"dropped a rule set: too many are in use (MaxRuleSets); its next request loads it again",
			"ruleSet", dropped, "most", r.config.MaxRuleSets)
	}
}

// logLoaded logs a version that took effect. Rule sets that requests load share a line a
// second, unless always.
func (r *Reloader) logLoaded(v *rules.Version, always bool) {
	const message = "loaded a rule set"
	args := []any{
		"ruleSet", v.RuleSet.ID(), "revision", rules.ShownRevision(v.Revision), "rules", v.RuleSet.Len(),
		"author", v.Author, "comment", v.Comment,
	}
	if always {
		r.config.Logger.Info(message, args...)
	} else {
		r.firstLoads.Log(context.Background(), r.config.Logger, slog.LevelInfo, message, args...)
	}
}

// read reads a version and compiles it.
func (r *Reloader) read(ctx context.Context, id string) (version *rules.Version, set *fluxgate.Compiled, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) {
		version, err = r.source.Load(ctx, id)
		return err
	})
	if err == nil && (version == nil || version.RuleSet == nil || version.RuleSet.ID() != id) {
		return nil, nil, fmt.Errorf("the source did not return rule set %q", id)
	}
	if err != nil {
		return nil, nil, err
	}
	set, err = fluxgate.Compile(version.RuleSet)
	return version, set, err
}

// failed records why a rule set could not be loaded, with a revision if only that
// one cannot. A rule set without rules starts with its last good copy. Errors
// after the end of ctx are ignored.
func (r *Reloader) failed(ctx context.Context, s *ruleSet, err error, revision int64) {
	if ctx.Err() != nil {
		return
	}
	r.counts.add(&r.counts.Failures)
	if s.current.Load() == nil && !s.loaded() {
		r.fromCopy(s)
	}
	s.mu.Lock()
	before := s.state
	s.state.Err, s.state.refused = err, revision
	s.state.lost = before.lost || errors.Is(err, ErrLost)
	s.mu.Unlock()
	if before.Err != nil && before.Err.Error() == err.Error() {
		return // it is logged already
	}
	message := "cannot load rules; the last good revision stays in effect"
	if before.Source == FromNowhere {
		message = "cannot load rules; the missing-rule behavior applies to requests"
	}
	r.log(s, slog.LevelError, message, "serving", before.Source, "revision", rules.ShownRevision(before.Revision), "error", err)
}

// note records the result of reading more than rules, and logs a new problem and its end.
func (r *Reloader) note(s *ruleSet, problem *error, err error, failed, repaired string, args ...any) {
	s.mu.Lock()
	before := *problem
	*problem = err
	s.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		r.counts.add(&r.counts.Failures)
		r.log(s, slog.LevelError, failed, append(args, "error", err)...)
	case err == nil && before != nil:
		r.log(s, slog.LevelInfo, repaired)
	}
}

// log logs an event of a rule set. Callers can invent ids, so ids without rules
// that are not configured share one line a minute.
func (r *Reloader) log(s *ruleSet, level slog.Level, message string, args ...any) {
	args = append([]any{"ruleSet", s.id}, args...)
	if !s.pinned && s.current.Load() == nil {
		r.unknown.Log(context.Background(), r.config.Logger, level, message, args...)
		return
	}
	r.config.Logger.Log(context.Background(), level, message, args...)
}

// fromCopy installs the last good copy, if there is one.
func (r *Reloader) fromCopy(s *ruleSet) bool {
	version, err := r.copies.load(s.id)
	var set *fluxgate.Compiled
	if err == nil {
		set, err = fluxgate.Compile(version.RuleSet)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		r.config.Logger.Warn("cannot use the copy of a rule set; waiting for the source", "ruleSet", s.id, "error", err)
		return false
	}
	s.install(set, version.Revision, FromCopy)
	r.loaded(version.RuleSet)
	return true
}

func (r *Reloader) loaded(set *rules.Set) {
	if r.config.Loaded != nil {
		r.config.Loaded(set)
	}
}

// Resetter is a store that can reset buckets. Every [store.Store] is one.
type Resetter interface {
	Reset(ctx context.Context, what store.Reset) (did bool, err error)
}

// resetBuckets does the pending reset of a new version. If the store is
// unavailable, it is tried again later.
func (r *Reloader) resetBuckets(ctx context.Context, s *ruleSet) {
	revision := s.snapshot().reset
	if revision == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	// Of several gateways one resets.
	did, err := r.config.ResetBuckets.Reset(ctx, store.Reset{Key: store.Key{RuleSet: s.id}, Mark: fmt.Sprint(revision)})
	if err != nil {
		r.config.Logger.Error("cannot reset the buckets of a rule set; trying again", "ruleSet", s.id, "error", err)
		return
	}
	if did {
		r.counts.add(&r.counts.Resets)
	}
	s.mu.Lock()
	if s.state.reset == revision {
		s.state.reset = 0
	}
	s.mu.Unlock()
}
