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
	return r.bring(ctx, sets, r.look(ctx, sets), retry)
}

// revisions is what the source has said about rule sets.
type revisions struct {
	heads map[string]rules.Head
	asked time.Time
	err   error
}

// look reads the revisions of rule sets.
func (r *Reloader) look(ctx context.Context, sets []*ruleSet) *revisions {
	r.counts.add(&r.counts.Looks)
	found := &revisions{asked: time.Now()}
	found.err = r.call(ctx, func(ctx context.Context) (err error) {
		found.heads, err = r.source.Revisions(ctx, idsOf(sets))
		return err
	})
	return found
}

// bring brings rule sets to the revisions that the source has.
func (r *Reloader) bring(ctx context.Context, sets []*ruleSet, to *revisions, retry bool) error {
	said := r.newLines()
	defer said.write()
	if to.err != nil {
		for _, s := range sets {
			r.failed(ctx, said, s, to.err, rules.Head{})
		}
		return to.err
	}
	var loads errgroup.Group
	loads.SetLimit(maxLoads)
	for _, s := range sets {
		head, known := to.heads[s.id]
		if !known || !r.upToDate(said, s, head, retry) {
			loads.Go(func() error { return r.update(ctx, said, s, head, known, to.asked) })
		}
	}
	err := loads.Wait()
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
func (r *Reloader) upToDate(said *lines, s *ruleSet, head rules.Head, retry bool) bool {
	if s.has(head) {
		r.confirm(said, s)
		return true
	}
	return !retry && head.Revision != 0 && head == s.snapshot().refused
}

// update brings a rule set to the revision that the source had at the time asked.
// It returns only the error of ctx.
func (r *Reloader) update(ctx context.Context, said *lines, s *ruleSet, head rules.Head, known bool, asked time.Time) error {
	if err := s.loading.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.loading.Release(1)
	switch {
	case s.snapshot().LoadedAt.After(asked):
		r.hint(s.id) // a later answer may have been loaded already
	case known && head.Deleted:
		had := s.current.Load() != nil
		s.install(nil, head.Revision, head, FromNowhere)
		r.confirm(said, s)
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
		r.load(ctx, said, s, head)
	case s.current.Load() != nil || !s.loaded() && r.fromCopy(s):
		r.failed(ctx, said, s, ErrLost, rules.Head{})
	default:
		if !s.loaded() {
			r.log(said, s, slog.LevelWarn, "rule set not found in the source", nil)
		}
		r.confirm(said, s)
	}
	return nil
}

// confirm records that the source has nothing newer.
func (r *Reloader) confirm(said *lines, s *ruleSet) {
	s.mu.Lock()
	before := s.state
	s.state.CheckedAt, s.state.Err, s.state.refused = time.Now(), nil, rules.Head{}
	s.mu.Unlock()
	if before.Err != nil {
		said.add(slog.LevelInfo, "rules can be loaded again", s.id, nil, "revision", rules.ShownRevision(before.Revision))
	}
}

// load reads a rule set and puts it in effect.
func (r *Reloader) load(ctx context.Context, said *lines, s *ruleSet, head rules.Head) {
	if s.has(head) {
		r.confirm(said, s) // another load was faster
		return
	}
	before := s.snapshot()
	had := s.current.Load() != nil && (s.loaded() || !s.unconfirmed())
	r.counts.add(&r.counts.Loads)
	version, set, err := r.read(ctx, s.id)
	if err != nil {
		r.failed(ctx, said, s, err, head)
		return
	}
	// Before the first version, or one with other keys, decides requests.
	r.readOverrides(ctx, []*ruleSet{s}, set)
	// It changed meanwhile, or a copy that is behind was read.
	if version.Revision != head.Revision || head.Commit != "" && version.Commit != "" && version.Commit != head.Commit {
		head = version.Head
	}
	s.install(set, version.Revision, head, FromSource)
	mark := markOf(version.Head)
	s.mu.Lock()
	s.state.mark = mark
	s.mu.Unlock()
	r.trim() // before a waiting request goes on
	r.confirm(said, s)
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
		if (version.Revision != before.Revision || before.Source != FromCopy) && r.config.ResetBuckets != nil {
			s.mu.Lock()
			s.state.reset = pendingReset{mark: mark, after: before.mark}
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

// failed records why a rule set could not be loaded, with a head if only that
// one cannot. A rule set without rules starts with its last good copy. Errors
// after the end of ctx are ignored.
func (r *Reloader) failed(ctx context.Context, said *lines, s *ruleSet, err error, head rules.Head) {
	if ctx.Err() != nil {
		return
	}
	r.counts.add(&r.counts.Failures)
	if s.current.Load() == nil && !s.loaded() {
		r.fromCopy(s)
	}
	s.mu.Lock()
	before := s.state
	s.state.Err, s.state.refused = err, head
	s.state.lost = before.lost || errors.Is(err, ErrLost)
	s.mu.Unlock()
	if before.Err != nil && before.Err.Error() == err.Error() {
		return // it is logged already
	}
	message := "cannot load rules; the last good revision stays in effect"
	if before.Source == FromNowhere {
		message = "cannot load rules; the missing-rule behavior applies to requests"
	}
	r.log(said, s, slog.LevelError, message, err, "serving", before.Source, "revision", rules.ShownRevision(before.Revision))
}

// note records the result of reading more than rules, and logs a new problem and its end.
func (r *Reloader) note(said *lines, s *ruleSet, problem *error, err error, failed, repaired string, args ...any) {
	s.mu.Lock()
	before := *problem
	*problem = err
	s.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		r.counts.add(&r.counts.Failures)
		r.log(said, s, slog.LevelError, failed, err, args...)
	case err == nil && before != nil:
		r.log(said, s, slog.LevelInfo, repaired, nil)
	}
}

// log logs an event of a rule set, with an error or nil. Callers can invent ids, so ids without
// rules that are not configured share one line a minute.
func (r *Reloader) log(said *lines, s *ruleSet, level slog.Level, message string, err error, args ...any) {
	if s.pinned || s.current.Load() != nil {
		said.add(level, message, s.id, err, args...)
		return
	}
	args = append([]any{"ruleSet", s.id}, args...)
	if err != nil {
		args = append(args, "error", err)
	}
	r.unknown.Log(context.Background(), r.config.Logger, level, message, args...)
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
	s.install(set, version.Revision, rules.Head{}, FromCopy)
	r.loaded(version.RuleSet)
	return true
}

func (r *Reloader) loaded(set *rules.Set) {
	if r.config.Loaded != nil {
		r.config.Loaded(set)
	}
}
