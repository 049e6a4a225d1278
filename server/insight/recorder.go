package insight

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/snapshotmap"
	"github.com/fluxgate/fluxgate/store"
)

const (
	// maxRules and maxRuleSets are how many are counted separately. The others share one
	// entry.
	maxRules    = 1_000
	maxRuleSets = 100
	// maxCallers is how many callers all lists hold together, and window how long they are
	// counted.
	maxCallers = 100_000
	window     = 60 // seconds
	// idle is after how many seconds without a request a rule gives its place to another.
	idle = 3_600
)

// other names the rules that are not counted separately.
const other = "other"

// ruleKey names a rule, or with an empty rule a rule set.
type ruleKey struct{ ruleSet, rule string }

// rule is what is recorded of one rule.
type rule struct {
	history
	limited, allowed callerList
	shadow           atomic.Bool // it was evaluated as a shadow rule last
}

// Recorder counts the decisions of a server. It is an observer of its engine. No request
// waits for it, and nothing is allocated for a request but the first of a rule, and while
// the list of its callers grows.
type Recorder struct {
	ruleSet string
	engine  func() *fluxgate.Engine

	total    history
	overflow rule
	ruleSets snapshotmap.Map[string, *history]
	rules    snapshotmap.Map[ruleKey, *rule]
	extra    budget

	durations func() Durations
	mu        sync.RWMutex // guards the histories but for their counters
	times     times
	start     int64       // the first second that is recorded
	second    int64       // the last second that has ended
	opened    [2]int64    // when the current and the last window of callers began
	full      atomic.Bool // there was no place for a rule or a rule set
}

var _ fluxgate.Observer = (*Recorder)(nil)

func newRecorder(config *Config) *Recorder {
	now := time.Now().Unix()
	r := &Recorder{ruleSet: config.RuleSet, engine: config.Engine, durations: config.Durations, start: now, second: now - 1, opened: [2]int64{now, now}}
	r.extra.left.Store(maxCallers - 2*2*leastCallers*maxRules)
	return r
}

// ended returns the last second that has ended, by a clock that may be a little early.
func ended(now time.Time) int64 { return now.Add(500*time.Millisecond).Unix() - 1 }

// Decided implements [fluxgate.Observer].
func (r *Recorder) Decided(_ context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	if err != nil && !errors.Is(err, fluxgate.ErrNoRuleSet) || req.Peek {
		return
	}
	ruleSet := req.RuleSet
	if ruleSet == "" {
		ruleSet = r.ruleSet
	}
	set := r.ruleSetOf(ruleSet, d)
	for _, o := range [...]struct {
		outcome outcome
		is      bool
	}{
		{outcomeOf(d), true}, {degraded, d.Degraded}, {waiting, d.Allowed && d.Wait > 0}, {shadow, r.evaluated(req, d)},
	} {
		if o.is {
			r.total.add(o.outcome)
			if set != nil {
				set.add(o.outcome)
			}
		}
	}
	switch d.Reason {
	case fluxgate.ReasonExempt:
		r.rule(ruleSet, d.RuleID).add(allowed)
	case fluxgate.ReasonDenied, fluxgate.ReasonMissingIdentity:
		r.rule(ruleSet, d.RuleID).add(denied)
	}
}

func outcomeOf(d *fluxgate.Decision) outcome {
	switch {
	case d.Allowed:
		return allowed
	case d.Reason == fluxgate.ReasonLimited || d.Reason == fluxgate.ReasonCostTooHigh:
		return limited
	}
	return denied
}

// evaluated counts a request under the rules that were evaluated for it, and reports
// whether a shadow rule would have rejected it.
func (r *Recorder) evaluated(req *fluxgate.Request, d *fluxgate.Decision) (shadowed bool) {
	engine := r.engine()
	for e := range d.Evaluated(req) {
		of := r.rule(e.Key.RuleSet, e.Key.Rule)
		if of.shadow.Load() != e.Shadow() {
			of.shadow.Store(e.Shadow())
		}
		rejected := e.Status == store.Rejected || e.Status == store.TooCostly
		undecided := e.Status == store.Unavailable
		switch {
		case rejected:
			o := limited
			if e.Shadow() {
				o, shadowed = shadow, true
			}
			of.add(o)
			r.count(of, &of.limited, engine, &e)
		case d.Allowed && (undecided || e.Status == store.OK):
			of.add(allowed)
			r.count(of, &of.allowed, engine, &e)
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
	return shadowed
}

// count counts a request of a caller. Callers of rules that share an entry are not counted.
func (r *Recorder) count(of *rule, list *callerList, engine *fluxgate.Engine, e *fluxgate.EvaluatedRule) {
	if of != &r.overflow {
		list.add(engine, e, &r.extra)
	}
}

// ruleSetOf returns the history of the rule set of a request, or nil if it does not exist:
// its name may be made up.
func (r *Recorder) ruleSetOf(id string, d *fluxgate.Decision) *history {
	if h := r.ruleSets.Entries()[id]; h != nil {
		return h
	}
	if d.Reason == fluxgate.ReasonNoRuleSet {
		return nil
	}
	if len(r.ruleSets.Entries()) >= maxRuleSets {
		r.full.Store(true)
		return nil
	}
	h, _ := r.ruleSets.Add(strings.Clone(id), maxRuleSets, func() *history { return new(history) })
	return h
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
	r.full.Store(true)
	return &r.overflow
}

// Waiting implements [fluxgate.Observer].
func (*Recorder) Waiting(context.Context, int) {}

// Settled implements [fluxgate.Observer].
func (*Recorder) Settled(context.Context, store.Settlement, error) {}

// StoreFailed implements [fluxgate.Observer].
func (*Recorder) StoreFailed(context.Context, error) {}

// forget drops the callers: their keys are no longer valid.
func (r *Recorder) forget() {
	for _, of := range r.rules.Entries() {
		of.limited.release(&r.extra)
		of.allowed.release(&r.extra)
	}
}

// tick ends a second.
func (r *Recorder) tick(second int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	after := r.second
	if second < after {
		second = after // the clock has stepped back
	}
	r.second = second
	r.total.tick(after, second)
	r.overflow.tick(after, second)
	for _, h := range r.ruleSets.Entries() {
		h.tick(after, second)
	}
	for _, of := range r.rules.Entries() {
		of.tick(after, second)
	}
	if r.durations != nil {
		r.times.tick(after, second, r.durations())
	}
	// Windows begin at the same time on all servers, as far as their clocks agree.
	if (second+1)/window != r.opened[0]/window {
		r.rotate(second)
	}
	if r.full.Swap(false) {
		r.dropIdle(second)
	}
}

// rotate begins a new window of callers.
func (r *Recorder) rotate(second int64) {
	r.opened = [2]int64{second + 1, r.opened[0]}
	for _, of := range r.rules.Entries() {
		of.limited.rotate(&r.extra)
		of.allowed.rotate(&r.extra)
	}
}

// dropIdle makes room for rules and rule sets that have requests.
func (r *Recorder) dropIdle(second int64) {
	isIdle := func(h *history) bool { return second-max(h.used, r.start) >= idle }
	r.ruleSets.Drop(func(_ string, h *history) bool { return isIdle(h) })
	r.rules.Drop(func(_ ruleKey, of *rule) bool {
		if !isIdle(&of.history) {
			return false
		}
		of.limited.release(&r.extra)
		of.allowed.release(&r.extra)
		return true
	})
}

// run ends every second until ctx ends.
func (r *Recorder) run(ctx context.Context) {
	for {
		now := time.Now()
		timer := time.NewTimer(now.Truncate(time.Second).Add(time.Second).Sub(now))
		select {
		case <-timer.C:
			r.tick(ended(time.Now()))
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
