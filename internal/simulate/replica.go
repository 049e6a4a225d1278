package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// replica decides requests by one rule set as a server would, on the clock of the log.
type replica struct {
	engine *fluxgate.Engine
	store  *recordingStore
	set    *fluxgate.RuleSet
	rules  []*ruleCount // in the order they are evaluated
	byID   map[string]*ruleCount
	most   int   // worst callers
	start  int64 // of the plots
	plots  int

	allowed, limited int64
	reasons          map[fluxgate.Reason]int64
}

// ruleCount is what one rule did.
type ruleCount struct {
	rule              *fluxgate.Rule
	quotas            *quotaClock
	requests, limited int64
	callers           callers
	series            *series
	peak              topMinutes

	// applies and rejects are about the request that is being decided, by is the caller.
	applies, rejects bool
	by               fluxgate.KeyID
	counted          bool // in a bucket
	// changed is how many of the limited requests the other rule set allows.
	changed int64
}

func newReplica(set *fluxgate.RuleSet, most int) (*replica, error) {
	r := &replica{set: set, byID: map[string]*ruleCount{}, most: most, reasons: map[fluxgate.Reason]int64{}}
	for rule := range set.Rules() {
		if rule.Disabled {
			continue
		}
		quotas, err := newQuotaClock(&rule)
		if err != nil {
			return nil, err
		}
		c := &ruleCount{rule: &rule, quotas: quotas, callers: callersOf(set.Len())}
		c.peak = topMinutes{most: 1, measure: func(m *Minute) int64 { return m.Limited }}
		r.rules = append(r.rules, c)
		r.byID[rule.ID] = c
	}
	r.store = &recordingStore{rules: r.byID}
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
	for _, c := range r.store.seen {
		c.applies, c.rejects, c.counted = false, false, false
	}
	r.store.seen, r.store.now = r.store.seen[:0], e.micros
	if r.start == 0 {
		r.start = e.micros
	}
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
	switch d.Reason {
	case fluxgate.ReasonDenied, fluxgate.ReasonMissingIdentity, fluxgate.ReasonExempt: // the store was not called for the rule
		if c := r.byID[d.RuleID]; c != nil && !c.applies {
			r.store.see(c, !d.Allowed)
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

// maxPlots is how many rules have a series, of 12 kB each.
const maxPlots = 256

// count counts the request for the rules that applied to it. changed is whether there is
// another rule set that allows it.
func (r *replica) count(e *entry, changed bool) {
	for _, c := range r.store.seen {
		if c.requests == 0 && r.plots < maxPlots {
			r.plots++
			s := newSeries(r.start)
			c.series = &s
		}
		c.count(e, changed)
	}
}

func (c *ruleCount) count(e *entry, changed bool) {
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
	if c.series != nil {
		p := c.series.at(e.micros)
		p.requests++
		if c.rejects {
			p.limited++
		}
	}
	if !c.counted {
		return
	}
	caller := c.callers.of(c.by)
	caller.requests++
	if !c.rejects {
		return
	}
	if caller.limited == 0 {
		caller.identity = identity(c.rule, &e.req)
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
			Rule: c.rule.ID, Action: string(c.rule.Action), Shadow: c.rule.Mode == fluxgate.ModeShadow,
			Requests: c.requests, Limited: c.limited, Changed: c.changed, series: c.series,
			Callers: c.callers.distinct, LimitedCallers: c.callers.limited, MoreCallers: c.callers.overflowed(),
			WorstCallers: c.callers.worst(r.most),
		}
		if rule.Action == "" {
			rule.Action = string(fluxgate.ActionLimit)
		}
		if c.peak.close(); len(c.peak.best) > 0 {
			rule.Peak = &c.peak.best[0]
		}
		if c.series != nil {
			c.series.cover(r.store.now)
		}
		result.Rules = append(result.Rules, rule)
	}
	return result
}

// recordingStore notes which rules were decided, for which callers and how. All bands of
// all rules of a request are decided by one call.
type recordingStore struct {
	*memstore.Store
	now   int64
	rules map[string]*ruleCount
	seen  []*ruleCount // that apply to the request
}

// Take implements [fluxgate.Store].
func (s *recordingStore) Take(ctx context.Context, demands []fluxgate.Demand, out *fluxgate.Outcome) error {
	for i := range demands {
		if c := s.rules[demands[i].Key.Rule]; c.quotas != nil {
			demands[i].Bands = c.quotas.at(s.now, demands[i].Bands)
		}
	}
	if err := s.Store.Take(ctx, demands, out); err != nil {
		return err
	}
	for i := range demands {
		c := s.rules[demands[i].Key.Rule]
		s.see(c, out.Results[i].Status != fluxgate.OK)
		c.by, c.counted = demands[i].Key.ID, true
	}
	return nil
}

func (s *recordingStore) see(c *ruleCount, rejects bool) {
	c.applies, c.rejects = true, rejects
	s.seen = append(s.seen, c)
}
