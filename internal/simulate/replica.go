package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/calendar"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// replica decides requests by one rule set as a server would, on the clock of the log.
type replica struct {
	engine *fluxgate.Engine
	store  *quotaStore
	set    *rules.Set
	rules  []*ruleCount // in the order they are evaluated
	byID   map[string]*ruleCount
	most   int          // worst callers
	seen   []*ruleCount // that apply to the request that is being decided

	allowed, limited int64
	reasons          map[fluxgate.Reason]int64
}

// ruleCount is what one rule did.
type ruleCount struct {
	rule              *rules.Rule
	zones             map[int]*time.Location // of the quotas among its bands
	requests, limited int64
	callers           callers
	peak              topMinutes

	// rejects is whether it limits the request that is being decided, and evaluated how it
	// was evaluated: without a rule if it was not counted in a bucket.
	rejects   bool
	evaluated fluxgate.EvaluatedRule
	// changed is how many of the limited requests the other rule set allows.
	changed int64
}

func newReplica(set *rules.Set, most int) (*replica, error) {
	r := &replica{set: set, byID: map[string]*ruleCount{}, most: most, reasons: map[fluxgate.Reason]int64{}}
	for rule := range set.Rules() {
		if rule.Disabled {
			continue
		}
		zones, err := quotaZones(&rule)
		if err != nil {
			return nil, err
		}
		c := &ruleCount{rule: &rule, zones: zones, callers: callersOf(set.Len())}
		c.peak = topMinutes{most: 1, measure: func(m *Minute) int64 { return m.Limited }}
		r.rules = append(r.rules, c)
		r.byID[rule.ID] = c
	}
	r.store = &quotaStore{rules: r.byID}
	memory, err := memstore.New(memstore.Config{Clock: func() time.Time { return time.UnixMicro(r.store.now) }})
	if err != nil {
		return nil, err
	}
	r.store.Store = memory
	r.engine, err = fluxgate.New(r.store, fluxgate.Static(set))
	return r, err
}

// decide decides a request and reports whether it is limited.
func (r *replica) decide(ctx context.Context, e *entry) (limited bool, err error) {
	r.seen, r.store.now = r.seen[:0], e.micros
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
	r.reasons[d.Reason]++
	if d.Allowed {
		r.allowed++
	} else {
		r.limited++
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
	c.requests++
	minute := c.peak.at(e.micros)
	minute.Requests++
	if c.rejects {
		c.limited++
		minute.Limited++
	}
	if changed {
		c.changed++
	}
	if c.evaluated.Rule == nil {
		return
	}
	caller := c.callers.of(c.evaluated.Key.ID)
	caller.requests++
	if !c.rejects {
		return
	}
	if caller.limited == 0 {
		caller.identity = r.identity(&c.evaluated, &e.req)
		if !c.callers.overflowed() {
			c.callers.limited++
		}
	}
	caller.limited++
	if changed {
		caller.changed++
	}
}

// result returns what was counted. No other call may follow.
func (r *replica) result() Result {
	result := Result{RuleSet: r.set.ID(), Allowed: r.allowed, Limited: r.limited, Reasons: map[string]int64{}}
	for reason, n := range r.reasons {
		result.Reasons[string(reason)] = n
	}
	for _, c := range r.rules {
		rule := RuleResult{
			Rule: c.rule.ID, Action: string(c.rule.Action), Shadow: c.rule.Mode == rules.ModeShadow,
			Requests: c.requests, Limited: c.limited, Changed: c.changed,
			Callers: c.callers.distinct, LimitedCallers: c.callers.limited, MoreCallers: c.callers.overflowed(),
			WorstCallers: c.callers.worst(r.most),
		}
		if rule.Action == "" {
			rule.Action = string(rules.ActionLimit)
		}
		if c.peak.close(); len(c.peak.best) > 0 {
			rule.Peak = &c.peak.best[0]
		}
		result.Rules = append(result.Rules, rule)
	}
	return result
}

// quotaZones returns the time zones of the quotas of a rule, by band.
func quotaZones(r *rules.Rule) (map[int]*time.Location, error) {
	zones := map[int]*time.Location{}
	for i, b := range r.Bands {
		if b.Kind != rules.Quota {
			continue
		}
		zone, err := calendar.Zone(b.Timezone)
		if err != nil {
			return nil, err
		}
		zones[i] = zone
	}
	return zones, nil
}

// quotaStore is a store whose quotas follow the calendar of the log. The engine takes the
// periods of the clock of this machine, which is right for a server.
type quotaStore struct {
	*memstore.Store
	now   int64
	rules map[string]*ruleCount
}

// Take implements [store.Store].
func (s *quotaStore) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	for i := range demands {
		d, c := &demands[i], s.rules[demands[i].Key.Rule]
		if len(c.zones) > 0 {
			d.Bands = slices.Clone(d.Bands) // the engine keeps the list
		}
		for j, zone := range c.zones {
			for k, edge := range calendar.Edges(c.rule.Bands[j].Period, zone, time.UnixMicro(s.now)) {
				d.Bands[j].Edges[k] = edge.UnixMicro()
			}
		}
	}
	return s.Store.Take(ctx, demands, out)
}
