package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// replica decides requests by one rule set as a server would, on the clock of the log.
type replica struct {
	engine *fluxgate.Engine
	store  *memstore.Store
	now    int64 // of the log
	set    *rules.Set
	rules  []*ruleCount // in the order they are evaluated
	byID   map[string]*ruleCount
	most   int          // worst callers
	seen   []*ruleCount // that apply to the request that is being decided
	found  Result       // without its rules
}

// ruleCount is what one rule did: its callers and its peak are counted beside the result.
type ruleCount struct {
	RuleResult
	rule    *rules.Rule
	callers callers
	peak    topMinutes

	// rejects is whether it limits the request that is being decided, and evaluated how it
	// was evaluated: without a rule if it was not counted in a bucket.
	rejects   bool
	evaluated fluxgate.EvaluatedRule
}

func newReplica(set *rules.Set, most int) (*replica, error) {
	r := &replica{set: set, byID: map[string]*ruleCount{}, most: most, found: Result{RuleSet: set.ID(), Reasons: map[string]int64{}}}
	for rule := range set.Rules() {
		if rule.Disabled {
			continue
		}
		c := &ruleCount{rule: &rule, callers: callersOf(set.Len())}
		c.Rule, c.Action, c.Shadow = rule.ID, string(cmp.Or(rule.Action, rules.ActionLimit)), rule.Mode == rules.ModeShadow
		c.peak = topMinutes{most: 1, measure: func(m *Minute) int64 { return m.Limited }}
		r.rules = append(r.rules, c)
		r.byID[rule.ID] = c
	}
	var err error
	if r.store, err = memstore.New(memstore.Config{Clock: func() time.Time { return time.UnixMicro(r.now) }}); err != nil {
		return nil, err
	}
	r.engine, err = fluxgate.New(r.store, fluxgate.Static(set))
	return r, err
}

// decide decides a request and reports whether it is limited.
func (r *replica) decide(ctx context.Context, e *entry) (limited bool, err error) {
	r.seen, r.now = r.seen[:0], e.micros
	d, err := r.engine.Check(ctx, &e.req)
	if err != nil {
		return false, fmt.Errorf("deciding a request: %w", err)
	}
	if _, holds := d.Hold(); holds {
		// A log does not say how long a request ran: its slot is free again at once.
		if _, err := r.engine.Settle(ctx, d.Receipt(), max(1, e.req.Cost)); err != nil {
			return false, fmt.Errorf("ending a request: %w", err)
		}
	}
	for evaluated := range d.Evaluated(&e.req) {
		r.see(r.byID[evaluated.Rule.ID], evaluated.Status != store.OK, evaluated)
	}
	switch d.Reason {
	case fluxgate.ReasonDenied, fluxgate.ReasonMissingIdentity, fluxgate.ReasonExempt: // the rule was not evaluated
		if c := r.byID[d.RuleID]; c != nil && !slices.Contains(r.seen, c) {
			r.see(c, !d.Allowed, fluxgate.EvaluatedRule{})
		}
	}
	r.found.Reasons[string(d.Reason)]++
	if d.Allowed {
		r.found.Allowed++
	} else {
		r.found.Limited++
	}
	return !d.Allowed, nil
}

// count counts the request for the rules that applied to it. changed is whether there is
// another rule set that allows it.
func (r *replica) count(e *entry, changed bool) {
	for _, c := range r.seen {
		r.countFor(c, e, changed)
	}
}

func (r *replica) see(c *ruleCount, rejects bool, evaluated fluxgate.EvaluatedRule) {
	c.rejects, c.evaluated = rejects, evaluated
	r.seen = append(r.seen, c)
}

func (r *replica) countFor(c *ruleCount, e *entry, changed bool) {
	changed = changed && c.rejects
	c.Requests++
	minute := c.peak.at(e.micros)
	minute.Requests++
	if c.rejects {
		c.Limited++
		minute.Limited++
	}
	if changed {
		c.Changed++
	}
	if c.evaluated.Rule == nil {
		return
	}
	caller := c.callers.of(c.evaluated.Key.ID)
	caller.Requests++
	if !c.rejects {
		return
	}
	if caller.Limited == 0 {
		caller.Identity = r.identity(&c.evaluated, &e.req)
		if !c.callers.overflowed() {
			c.callers.limited++
		}
	}
	caller.Limited++
	if changed {
		caller.Changed++
	}
}

// result returns what was counted. No other call may follow.
func (r *replica) result() Result {
	for _, c := range r.rules {
		c.Callers, c.LimitedCallers, c.MoreCallers = c.callers.distinct, c.callers.limited, c.callers.overflowed()
		c.WorstCallers = c.callers.worst(r.most)
		if c.peak.close(); len(c.peak.best) > 0 {
			c.Peak = &c.peak.best[0]
		}
		r.found.Rules = append(r.found.Rules, c.RuleResult)
	}
	r.found.Evicted = r.store.Stats().Evicted
	return r.found
}
