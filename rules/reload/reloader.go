package reload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/rules"
)

// Reloader keeps rule sets in memory and up to date. It is what an engine
// takes as its rule sets.
type Reloader struct {
	source rules.Source
	config Config
	table  *table
	copies *copies
	hints  hints
	counts counters
	// unknown bounds the log lines about ids that callers may have invented.
	unknown *logthrottle.Throttle
	// malformed bounds those about messages that are not acted upon.
	malformed *logthrottle.Throttle

	// seconds since the start, in ticks: what entries note when they are used.
	tick     atomic.Int64
	tickTime time.Duration
	// firsts bounds how many rule sets are loaded for the first time at once.
	firsts chan struct{}
	// looking is held while the source is asked about more than one of them.
	looking sync.Mutex

	life     context.Context
	end      context.CancelFunc
	starting sync.Mutex // held while something starts to run, or it is closed
	ended    bool
	running  sync.WaitGroup
}

var _ fluxgate.RuleSets = (*Reloader)(nil)

// Start loads the rule sets that the config names and keeps them up to date
// until it is closed. A rule set that cannot be loaded begins with its last
// good copy. If there is none either Start fails, unless
// [Config.StartWithoutRules] is set; [Reloader.Status] then says what is
// missing. ctx bounds the start only.
func Start(ctx context.Context, source rules.Source, config Config) (*Reloader, error) {
	if source == nil {
		return nil, errors.New("reloading rules: there is no source")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("reloading rules: %w", err)
	}
	copies, err := openCopies(config.Copies)
	if err != nil {
		return nil, fmt.Errorf("reloading rules: %w", err)
	}
	r := &Reloader{
		source: source, config: config, table: newTable(config.MaxRuleSets), copies: copies,
		tickTime: min(time.Second, max(time.Millisecond, config.IdleAfter/8)), firsts: make(chan struct{}, 8),
		unknown: logthrottle.New(time.Minute), malformed: logthrottle.New(time.Minute),
	}
	r.hints.wake = make(chan struct{}, 1)
	r.life, r.end = context.WithCancel(context.WithoutCancel(ctx))
	for _, id := range config.RuleSets {
		if e, fresh := r.table.add(id, true); fresh {
			r.background(func(context.Context) { r.loadFirst(e) })
		}
	}
	for _, id := range config.RuleSets {
		select {
		case <-r.table.get(id).first:
		case <-ctx.Done():
			_ = r.Close()
			return nil, fmt.Errorf("reloading rules: %w", ctx.Err())
		}
	}
	if err := r.missing(config.RuleSets...); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("reloading rules: %w", err)
	}
	r.background(r.run)
	if config.Strategy == Off {
		return r, nil
	}
	if config.Strategy != Polling {
		r.background(r.listen)
	}
	if watcher, ok := source.(rules.Watcher); ok {
		r.background(func(life context.Context) { r.watch(life, watcher) })
	}
	if source, ok := source.(rules.Reconciler); ok {
		r.background(func(life context.Context) { r.reconcileAll(life, source) })
	}
	return r, nil
}

// missing is why a reloader may not start without these rule sets, or nil.
func (r *Reloader) missing(ids ...string) error {
	if r.config.StartWithoutRules {
		return nil
	}
	var wrong []error
	for _, id := range ids {
		if e := r.table.get(id); e == nil || e.current.Load() == nil {
			why := rules.ErrNotFound
			if e != nil {
				why = cmp.Or(e.snapshot().Err, why)
			}
			wrong = append(wrong, fmt.Errorf("rule set %q: %w", id, why))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("no rules to decide by: %w", errors.Join(wrong...))
}

// Require loads a rule set if it is not loaded yet. It returns an error if
// there is none, unless [Config.StartWithoutRules] is set. [fluxgate.New] calls
// it for the engine's own rule set.
func (r *Reloader) Require(id string) error {
	e := r.table.get(id)
	if e == nil {
		e = r.begin(id)
	}
	if e != nil && !r.config.StartWithoutRules {
		<-e.first // within the timeouts of its reads
	}
	return r.missing(id)
}

// Close ends the reloading. The rule sets that are loaded go on deciding.
func (r *Reloader) Close() error {
	r.starting.Lock()
	again := r.ended
	r.ended = true
	r.end()
	r.starting.Unlock()
	r.running.Wait()
	if !again {
		r.copies.close()
	}
	return nil
}

// background runs something that Close ends and waits for. After Close it does
// nothing, and says so.
func (r *Reloader) background(run func(context.Context)) bool {
	r.starting.Lock()
	defer r.starting.Unlock()
	if r.ended {
		return false
	}
	r.running.Go(func() { run(r.life) })
	return true
}

// RuleSet implements [fluxgate.RuleSets]: from memory, but for the first
// request of a rule set, which waits for it.
func (r *Reloader) RuleSet(ctx context.Context, id string) *fluxgate.RuleSet {
	e := r.table.get(id)
	if e == nil {
		if e = r.begin(id); e == nil {
			return nil
		}
	}
	e.touch(r.tick.Load())
	if set := e.current.Load(); set != nil {
		return set
	}
	if !e.loaded() {
		r.await(ctx, e)
	}
	return e.current.Load()
}

// begin starts to load a rule set that nobody has asked for yet.
func (r *Reloader) begin(id string) *entry {
	if !fluxgate.ValidID(id) {
		return nil
	}
	e, fresh := r.table.add(id, false)
	if e == nil {
		r.counts.turned.Add(1)
		return nil
	}
	e.touch(r.tick.Load())
	if fresh && !r.background(func(context.Context) { r.loadFirst(e) }) {
		close(e.first)
	}
	return e
}

func (r *Reloader) await(ctx context.Context, e *entry) {
	timer := time.NewTimer(r.config.FirstWait)
	defer timer.Stop()
	select {
	case <-e.first:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// loadFirst loads a rule set for the first time.
func (r *Reloader) loadFirst(e *entry) {
	defer close(e.first)
	select {
	case r.firsts <- struct{}{}:
		defer func() { <-r.firsts }()
	case <-r.life.Done():
		return
	}
	err := r.look(r.life, []*entry{e}, false) // what went wrong is in the status
	source, ok := r.source.(rules.Reconciler)
	if err != nil || !ok || e.current.Load() != nil {
		return
	}
	// There may be content that was not imported yet.
	if r.reconcile(r.life, source, e) {
		_ = r.look(r.life, []*entry{e}, false)
	}
}

// Reload looks at the source now, and returns what is wrong with any of the
// rule sets in use.
func (r *Reloader) Reload(ctx context.Context) error {
	entries := r.entries()
	if err := r.look(ctx, entries, true); err != nil {
		return err
	}
	for _, e := range entries {
		r.reconcileAgain(ctx, e)
	}
	var wrong []error
	for _, s := range r.Status() {
		if s.Err != nil {
			wrong = append(wrong, fmt.Errorf("rule set %q: %w", s.RuleSet, s.Err))
		}
	}
	return errors.Join(wrong...)
}

func (r *Reloader) entries() []*entry {
	all := r.table.all()
	list := make([]*entry, 0, len(all))
	for _, e := range all {
		list = append(list, e)
	}
	return list
}

// run looks at the source in due course until life ends.
func (r *Reloader) run(life context.Context) {
	// Gateways that start together do not poll together.
	poll := time.NewTimer(upTo(r.config.Interval / 2))
	tick := time.NewTicker(r.tickTime)
	defer poll.Stop()
	defer tick.Stop()
	wake, gap := r.hints.wake, minGap
	var due <-chan time.Time // of the look that hints ask for
	var looked time.Time
	for {
		select {
		case <-life.Done():
			return
		case <-poll.C:
			r.poll(life)
			poll.Reset(r.config.Interval/2 + upTo(r.config.Jitter))
		case <-tick.C:
			r.expire()
		case <-wake:
			// One look answers all hints that arrive until then.
			wake, due = nil, time.After(max(upTo(r.config.Jitter), gap-time.Since(looked)))
		case <-due:
			wake, due = r.hints.wake, nil
			if entries := r.hinted(); len(entries) > 0 {
				swaps := r.counts.swaps.Load()
				_ = r.look(life, entries, false) // what went wrong is in the status
				looked, gap = time.Now(), min(2*gap, maxGap)
				if r.counts.swaps.Load() != swaps {
					gap = minGap
				}
			}
		}
	}
}

// Looks that hints ask for are at least minGap apart. The gap doubles up to
// maxGap while they find nothing new: a flood of announcements must not become
// a flood of reads of the source.
const (
	minGap = 10 * time.Millisecond
	maxGap = time.Second
)

// poll looks at everything in use. A server that relies on announcements polls
// only rule sets with an error, unless others can edit the source's content:
// whoever does that announces nothing.
func (r *Reloader) poll(life context.Context) {
	due := r.entries()
	_, edited := r.source.(rules.Reconciler)
	if r.config.Strategy == PubSub && !edited || r.config.Strategy == Off {
		wrong := due[:0]
		for _, e := range due {
			if e.snapshot().Err != nil {
				wrong = append(wrong, e)
			}
		}
		due = wrong
	}
	_ = r.look(life, due, true) // what went wrong is in the status
	for _, e := range r.entries() {
		r.resetBuckets(life, e)
	}
}

// expire drops what nobody uses.
func (r *Reloader) expire() {
	now := r.tick.Add(1)
	dropped := r.table.dropIdle(now - int64(r.config.IdleAfter/r.tickTime))
	if len(dropped) > 0 {
		r.config.Logger.Info("dropped rule sets that are not in use", "ruleSets", dropped)
	}
}

// upTo is a random time from 0 to d.
func upTo(d time.Duration) time.Duration {
	return rand.N(d + 1) //nolint:gosec // spreads load and protects nothing
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
