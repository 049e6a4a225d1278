package reload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/internal/pendingids"
	"github.com/fluxgate/fluxgate/rules"
)

// Reloader keeps rule sets in memory and up to date. It implements
// [fluxgate.RuleSets].
type Reloader struct {
	source rules.Source
	config Config
	sets   *ruleSets
	copies copies
	hints  *pendingids.Set // of rule sets that may have changed
	counts counters
	// unknown throttles log lines about ids that callers may have invented,
	// malformed those about malformed messages, unheard those about a lost
	// connection for announcements.
	// firstLoads, turned and drops throttle those about rule sets that are loaded when a
	// request needs them, are not because of others, and are dropped again.
	unknown, malformed, unheard, firstLoads, turned, drops *logthrottle.Throttle

	// firsts bounds how many first loads run at once.
	firsts     *semaphore.Weighted
	firstLooks firstLooks
	// silence is why announcements are not received. It is nil if they are, or are not used.
	silence atomic.Pointer[error]
	// polled is when all rule sets were last polled.
	polled    time.Time
	work      *background.Group
	overrides atomic.Pointer[fluxgate.Overrides] // may be nil
}

var _ fluxgate.RuleSets = (*Reloader)(nil)

// Start loads the rule sets in the config and keeps them up to date until Close.
// Last good copies are in effect before the source is read, and stay in effect
// until it answers. Without a copy Start fails if a rule set cannot be loaded, unless
// [Config.StartWithoutRules] is set; [Reloader.Status] then has the missing ones.
// If Start need not fail, it waits for [Config.FirstWait] at most. ctx bounds only
// the start.
func Start(ctx context.Context, source rules.Source, config Config) (*Reloader, error) {
	if source == nil {
		return nil, errors.New("reloading rules: the source is nil")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("reloading rules: %w", err)
	}
	copies := copies(config.Copies)
	if err := copies.create(); err != nil {
		return nil, fmt.Errorf("reloading rules: creating the folder for copies: %w", err)
	}
	r := &Reloader{
		source: source, config: config, sets: newRuleSets(config.MaxRuleSets), copies: copies,
		hints: pendingids.New(), work: background.New(ctx), polled: time.Now(),
		firsts: semaphore.NewWeighted(8), firstLooks: firstLooks{reading: semaphore.NewWeighted(1)},
		unknown: logthrottle.New(time.Minute), malformed: logthrottle.New(time.Minute), unheard: logthrottle.New(time.Minute),
		firstLoads: logthrottle.New(time.Second), turned: logthrottle.New(time.Minute), drops: logthrottle.New(time.Minute),
	}
	r.overrides.Store(config.Overrides)
	for _, id := range config.RuleSets {
		if s, fresh := r.sets.add(id, true); fresh {
			r.fromCopy(s)
			r.work.Go(func(ctx context.Context) { r.loadFirst(ctx, s) })
		}
	}
	err = r.awaitFirst(ctx)
	if err == nil {
		err = r.missing(config.RuleSets...)
	}
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("reloading rules: %w", err)
	}
	r.work.Go(r.poll)
	r.work.Go(r.follow)
	if config.Strategy == Off {
		return r, nil
	}
	if config.Strategy != Polling {
		r.work.Go(r.listen)
	}
	if watcher, ok := source.(rules.Watcher); ok {
		r.work.Go(func(ctx context.Context) { r.watch(ctx, watcher) })
	}
	if source, ok := source.(rules.Reconciler); ok {
		r.work.Go(func(ctx context.Context) { r.reconcileAll(ctx, source) })
	}
	return r, nil
}

// awaitFirst waits until the rule sets in the config were read for the first time.
// For those that can do without it waits for FirstWait at most.
func (r *Reloader) awaitFirst(ctx context.Context) error {
	brief, cancel := context.WithTimeout(ctx, r.config.FirstWait)
	defer cancel()
	for _, id := range r.config.RuleSets {
		s, longest := r.sets.get(id), ctx
		if r.config.StartWithoutRules || s.current.Load() != nil {
			longest = brief
		}
		select {
		case <-s.first:
		case <-longest.Done():
		}
	}
	return ctx.Err()
}

// missing returns why these rule sets have no rules, or nil if they have.
func (r *Reloader) missing(ids ...string) error {
	if r.config.StartWithoutRules {
		return nil
	}
	var wrong []error
	for _, id := range ids {
		if s := r.sets.get(id); s == nil || s.current.Load() == nil {
			why := rules.ErrNotFound
			if s != nil {
				why = cmp.Or(s.snapshot().Err, why)
			}
			wrong = append(wrong, fmt.Errorf("rule set %q: %w", id, why))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("no rules loaded: %w", errors.Join(wrong...))
}

// Require loads a rule set if it is not loaded yet. It returns an error if the rule
// set does not exist, unless [Config.StartWithoutRules] is set. [fluxgate.New] calls
// it for the engine's rule set.
func (r *Reloader) Require(id string) error {
	if s := r.begin(id); s != nil && !r.config.StartWithoutRules {
		<-s.first // within the timeouts of its reads
	}
	return r.missing(id)
}

// Missing reports whether the source has no such rule set. It is false while that is
// unknown: the first read has not ended, or the last read failed.
func (r *Reloader) Missing(id string) bool {
	s := r.sets.get(id)
	if s == nil {
		return !rules.ValidID(id)
	}
	status := s.snapshot()
	return s.loaded() && s.current.Load() == nil && status.Err == nil && !status.CheckedAt.IsZero()
}

// Loading reports whether a rule set is unknown so far: its first read has not ended, or
// waits for reads of other rule sets.
func (r *Reloader) Loading(id string) bool {
	s := r.sets.get(id)
	return s == nil && rules.ValidID(id) || s != nil && !s.loaded()
}

// Close ends the reloading. Loaded rule sets stay in effect.
func (r *Reloader) Close() error {
	r.work.Close()
	return nil
}

// RuleSet implements [fluxgate.RuleSets]. It reads memory; only the first request
// of a rule set waits until it is loaded.
func (r *Reloader) RuleSet(ctx context.Context, id string) *fluxgate.Compiled {
	s := r.begin(id)
	if s == nil {
		return nil
	}
	s.touch(r.sets.count.Load())
	if set := s.current.Load(); set != nil {
		return set
	}
	if !s.loaded() {
		brief, cancel := context.WithTimeout(ctx, r.config.FirstWait)
		defer cancel()
		select {
		case <-s.first:
		case <-brief.Done():
		}
	}
	return s.current.Load() // it may have been loaded meanwhile
}

// begin starts to load a rule set unless it was started before. It returns nil if
// the id is invalid or too many are being loaded.
func (r *Reloader) begin(id string) *ruleSet {
	if s := r.sets.get(id); s != nil || !rules.ValidID(id) {
		return s
	}
	s, fresh := r.sets.add(id, false)
	if s == nil {
		r.counts.add(&r.counts.Turned)
		r.turned.Log(context.Background(), r.config.Logger, slog.LevelWarn,
			"cannot load the rule set of a request yet: too many others are being loaded")
		return nil
	}
	s.touch(r.sets.count.Load())
	if fresh && !r.work.Go(func(ctx context.Context) { r.loadFirst(ctx, s) }) {
		close(s.first)
	}
	return s
}

// Reload reads the source now, and returns the errors of the rule sets in use. It
// ends with ctx.
func (r *Reloader) Reload(ctx context.Context) error {
	sets := r.sets.all()
	if err := r.refresh(ctx, sets, true); err != nil {
		return err
	}
	for _, s := range sets {
		r.reconcileAgain(ctx, s)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var wrong []error
	for _, s := range r.Status() {
		if s.Err != nil {
			wrong = append(wrong, fmt.Errorf("rule set %q: %w", s.RuleSet, s.Err))
		}
	}
	return errors.Join(wrong...)
}

// follow follows hints.
func (r *Reloader) follow(ctx context.Context) {
	gap, followed := minGap, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hints.Wake():
		}
		// One refresh follows all hints that arrive until then.
		_ = background.Sleep(ctx, max(upTo(r.config.Jitter), gap-time.Since(followed)))
		sets, before := r.hinted(), r.Stats()
		if len(sets) == 0 {
			continue
		}
		_ = r.refresh(ctx, sets, false) // an error is in the status
		followed, gap = time.Now(), min(2*gap, maxGap)
		if now := r.Stats(); now.Swaps != before.Swaps || now.Overrides != before.Overrides {
			gap = minGap
		}
	}
}

// Refreshes that follow hints are at least minGap apart. The gap doubles up to
// maxGap while they find nothing new: a flood of announcements must not become
// a flood of reads of the source.
const (
	minGap = 10 * time.Millisecond
	maxGap = time.Second
)

// poll refreshes the rule sets in use every half interval.
func (r *Reloader) poll(ctx context.Context) {
	// Gateways that start together do not poll together.
	for pause := upTo(r.config.Interval / 2); background.Sleep(ctx, pause) == nil; pause = r.config.Interval/2 + upTo(r.config.Jitter) {
		r.pollOnce(ctx)
	}
}

// rarely is how many intervals announcements are relied on.
const rarely = 10

// pollOnce refreshes all rule sets in use. With announcements it polls only rule sets
// with an error, unless other programs can edit the source's content, which they
// do not announce. While none can be received it polls all; otherwise rarely, because a
// writer that is cut off announces nothing.
func (r *Reloader) pollOnce(ctx context.Context) {
	sets := r.sets.all()
	_, edited := r.source.(rules.Reconciler)
	relied := r.config.Strategy == PubSub && !edited && r.Silence() == nil && time.Since(r.polled) < rarely*r.config.Interval
	if !relied {
		r.polled = time.Now()
	}
	if relied || r.config.Strategy == Off {
		sets = slices.DeleteFunc(sets, func(s *ruleSet) bool {
			status := s.snapshot()
			return status.Err == nil && status.OverridesErr == nil
		})
	}
	_ = r.refresh(ctx, sets, true) // an error is in the status
	for _, s := range r.sets.all() {
		r.resetBuckets(ctx, s)
	}
}

// upTo returns a random duration from 0 to d.
func upTo(d time.Duration) time.Duration {
	return rand.N(d + 1) //nolint:gosec // spreads load, not security-relevant
}
