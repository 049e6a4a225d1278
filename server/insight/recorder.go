package insight

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/internal/snapshotmap"
	"github.com/fluxgate/fluxgate/store"
)

const (
	// maxRules and maxRuleSets are how many are counted separately, until a restart. Those that
	// come later share one entry.
	maxRules    = 1_000
	maxRuleSets = 100
	// maxCallers is how many callers all lists hold together, and window how long they are
	// counted.
	maxCallers = 100_000
	window     = 60 // seconds
)

// ruleKey names a rule, or with an empty rule a rule set.
type ruleKey struct{ ruleSet, rule string }

// rule is what is recorded of one rule.
type rule struct {
	history
	limited, allowed callerList
	shadow           atomic.Bool // it was evaluated as a shadow rule last
}

// RecorderConfig configures a [Recorder].
type RecorderConfig struct {
	// Engine returns the engine whose decisions are counted. Nil means that none are.
	Engine func() *fluxgate.Engine
	// RuleSet is the rule set of requests that name none.
	RuleSet string
}

// Recorder counts the decisions of a server over the last minutes. No request waits for it. It allocates only for the first request
// of a rule, and while the list of callers grows.
type Recorder struct {
	config RecorderConfig

	total    history
	overflow rule
	ruleSets snapshotmap.Map[string, *history]
	rules    snapshotmap.Map[ruleKey, *rule]
	extra    budget

	durations func() Durations
	mu        sync.RWMutex         // guards the histories but for their counters
	times     [steps + 1]Durations // the histogram at the ends of steps
	start     int64                // the first step that is recorded, in steps since 1970
	now       int64                // the last step that has ended
	opened    [2]int64             // when the current and the last window of callers began, in seconds
}

// NewRecorder returns a recorder.
func NewRecorder(config RecorderConfig) *Recorder {
	now := time.Now().Unix()
	r := &Recorder{config: config, start: now / step, now: now/step - 1, opened: [2]int64{now, now}}
	r.extra.left.Store(maxCallers - 2*2*leastCallers*maxRules)
	return r
}

// ended returns the last step that has ended, by a clock that may be a little early.
func ended(now time.Time) int64 { return now.Add(500*time.Millisecond).Unix()/step - 1 }

// Count counts a decision. Peeks are not counted.
func (r *Recorder) Count(req *fluxgate.Request, d *fluxgate.Decision, o meter.Outcome) {
	if r.config.Engine == nil || req.Peek || !o.Decided() {
		return
	}
	id := cmp.Or(req.RuleSet, r.config.RuleSet)
	set := r.ruleSetOf(id, o)
	shadowed := r.evaluated(req, d)
	switch d.Reason {
	case fluxgate.ReasonExempt:
		r.rule(id, d.RuleID).add(allowed)
	case fluxgate.ReasonDenied, fluxgate.ReasonMissingIdentity:
		r.rule(id, d.RuleID).add(denied)
	}
	r.count(set, classOf(d), true)
	r.count(set, degraded, d.Degraded)
	r.count(set, waiting, d.Allowed && d.Wait > 0)
	r.count(set, shadow, shadowed)
}

// count counts a request in total and for its rule set, which may be nil.
func (r *Recorder) count(set *history, c class, is bool) {
	if is {
		r.total.add(c)
		if set != nil {
			set.add(c)
		}
	}
}

func classOf(d *fluxgate.Decision) class {
	switch {
	case d.Allowed:
		return allowed
	case d.Reason == fluxgate.ReasonLimited || d.Reason == fluxgate.ReasonCostTooHigh:
		return limited
	}
	return denied
}

// evaluated counts a request under the rules that were evaluated for it. It returns whether a
// shadow rule would have rejected the request.
func (r *Recorder) evaluated(req *fluxgate.Request, d *fluxgate.Decision) (shadowed bool) {
	for e := range d.Evaluated(req) {
		rejected := e.Status == store.Rejected || e.Status == store.TooCostly
		r.evaluatedRule(r.rule(e.Key.RuleSet, e.Key.Rule), d, &e, rejected)
		shadowed = shadowed || rejected && e.Shadow()
	}
	return shadowed
}

// evaluatedRule counts a request under one rule.
func (r *Recorder) evaluatedRule(of *rule, d *fluxgate.Decision, e *fluxgate.EvaluatedRule, rejected bool) {
	isShadow, undecided := e.Shadow(), e.Status == store.Unavailable
	if of.shadow.Load() != isShadow {
		of.shadow.Store(isShadow)
	}
	switch {
	case rejected && isShadow:
		of.add(shadow)
		r.countCaller(of, &of.limited, e)
	case rejected:
		of.add(limited)
		r.countCaller(of, &of.limited, e)
	case d.Allowed && (undecided || e.Status == store.OK):
		of.add(allowed)
		r.countCaller(of, &of.allowed, e)
		if e.Wait > 0 {
			of.add(waiting)
		}
	case undecided && d.Reason == fluxgate.ReasonStoreFailure && d.RuleID == e.Rule.ID:
		of.add(denied)
	}
	if undecided || e.Source == store.FromFallback {
		of.add(degraded)
	}
}

// countCaller counts a request of a caller. Callers of rules that share an entry are not
// counted.
func (r *Recorder) countCaller(of *rule, list *callerList, e *fluxgate.EvaluatedRule) {
	if of != &r.overflow {
		list.add(r.config.Engine(), e, &r.extra)
	}
}

// ruleSetOf returns what is recorded of a rule set, nil if there is no place for it or the rule
// set does not exist.
func (r *Recorder) ruleSetOf(id string, o meter.Outcome) *history {
	set := r.ruleSets.Entries()[id]
	if set == nil && o.RuleSetExists() && len(r.ruleSets.Entries()) < maxRuleSets { // else its name may be made up
		set, _ = r.ruleSets.Add(strings.Clone(id), maxRuleSets, func() *history { return new(history) })
	}
	return set
}

// rule returns what is recorded of a rule.
func (r *Recorder) rule(ruleSet, id string) *rule {
	if of := r.rules.Entries()[ruleKey{ruleSet, id}]; of != nil {
		return of
	}
	if len(r.rules.Entries()) < maxRules {
		// The memory of the request is not kept.
		if of, ok := r.rules.Add(ruleKey{strings.Clone(ruleSet), strings.Clone(id)}, maxRules, func() *rule { return new(rule) }); ok {
			return of
		}
	}
	return &r.overflow
}

// Forget drops all callers. It is called when an engine with another salt replaces the
// engine: the keys of callers are then no longer keys of buckets.
func (r *Recorder) Forget() {
	for _, of := range r.rules.Entries() {
		of.limited.release(&r.extra)
		of.allowed.release(&r.extra)
	}
}

// tick ends a step.
func (r *Recorder) tick(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	after := r.now
	now = max(now, after) // the clock may have stepped back
	r.now = now
	r.total.tick(after, now)
	r.overflow.tick(after, now)
	for _, h := range r.ruleSets.Entries() {
		h.tick(after, now)
	}
	for _, of := range r.rules.Entries() {
		of.tick(after, now)
	}
	if r.durations != nil {
		durations := r.durations()
		for s := max(after, now-steps-1) + 1; s <= now; s++ {
			*r.durationsAt(s) = durations
		}
	}
	// Windows begin at the same time on all servers, as far as their clocks agree.
	if end := r.end(); end/window != r.opened[0]/window {
		r.rotate(end)
	}
}

// end returns when the last step ended, in unix seconds.
func (r *Recorder) end() int64 { return (r.now + 1) * step }

// durationsAt returns the histogram at the end of a step.
func (r *Recorder) durationsAt(s int64) *Durations { return &r.times[s%(steps+1)] }

// rotate begins a new window of callers.
func (r *Recorder) rotate(now int64) {
	r.opened = [2]int64{now, r.opened[0]}
	for _, of := range r.rules.Entries() {
		of.limited.rotate(&r.extra)
		of.allowed.rotate(&r.extra)
	}
}

// run ends every step until ctx ends.
func (r *Recorder) run(ctx context.Context) {
	for {
		now := time.Now()
		timer := time.NewTimer(now.Truncate(step * time.Second).Add(step * time.Second).Sub(now))
		select {
		case <-timer.C:
			r.tick(ended(time.Now()))
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
