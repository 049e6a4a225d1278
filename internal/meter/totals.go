package meter

import (
	"cmp"
	"strings"
	"sync/atomic"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/snapshotmap"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Labels where there is no name to show.
const (
	Other   = "other"   // the names with a label of their own are used up
	Unknown = "unknown" // the rule set does not exist
)

// totals are what metrics show: decisions since the start. So many rule sets and rules are
// counted separately, for ever; those that come later share the label other.
type totals struct {
	ruleSets       snapshotmap.Map[string, *setTotals]
	rules          snapshotmap.Map[ruleKey, *RuleTotals]
	unknown, other *setTotals
}

type ruleKey struct{ ruleSet, rule string }

// setTotals are the decisions for a rule set.
type setTotals struct {
	label  string
	named  bool // the label is that of one rule set
	counts [len(outcomeNames)][2][noSource + 1]atomic.Uint64
	rest   RuleTotals // of rules without a label of their own
}

func newSetTotals(label string, named bool) *setTotals {
	return &setTotals{label: label, named: named, rest: RuleTotals{RuleSet: label, Rule: Other}}
}

func (s *setTotals) add(o Outcome, d *fluxgate.Decision) {
	allowed := 0
	if d.Allowed && o.Decided() {
		allowed = 1
	}
	s.counts[o][allowed][sourceOf(d)].Add(1)
}

// RuleTotals are the decisions by a rule, or by all rules that share the label other.
type RuleTotals struct {
	RuleSet, Rule string // the labels
	// ShadowRejected counts the requests that a shadow rule would have rejected, NearLimit
	// the allowed requests that left a fifth of the binding band or less.
	ShadowRejected, NearLimit atomic.Uint64

	named  bool // the label is that of one rule
	counts [len(outcomeNames)]atomic.Uint64
}

func (t *RuleTotals) add(o Outcome, d *fluxgate.Decision) {
	t.counts[o].Add(1)
	if o == outcomeAllowed && d.Remaining <= d.Limit/5 {
		t.NearLimit.Add(1)
	}
}

// count counts a request.
func (m *Meter) count(req *fluxgate.Request, d *fluxgate.Decision, o Outcome) {
	id := cmp.Or(req.RuleSet, m.config.RuleSet)
	if !o.RuleSetExists() { // its name may be made up
		m.known(id).add(o, d)
		return
	}
	set := m.ruleSet(id)
	set.add(o, d)
	var last *rules.Rule
	for e := range d.Evaluated(req) {
		// Requests that are decided together count once.
		if (e.Status == store.Rejected || e.Status == store.TooCostly) && e.Shadow() && e.Rule != last {
			m.rule(set, e.Rule.ID).ShadowRejected.Add(1)
		}
		last = e.Rule
	}
	if d.RuleID != "" {
		m.rule(set, d.RuleID).add(o, d)
	}
}

// known returns the totals of a rule set that may not exist.
func (m *Meter) known(id string) *setTotals {
	if set := m.totals.ruleSets.Entries()[id]; set != nil {
		return set
	}
	return m.totals.unknown
}

// ruleSet returns the totals of a rule set that exists.
func (m *Meter) ruleSet(id string) *setTotals {
	known := m.totals.ruleSets.Entries()
	if set := known[id]; set != nil {
		return set
	}
	if len(known) < m.config.MaxRuleSets && rules.ValidID(id) && id != Unknown && id != Other {
		id = strings.Clone(id) // the memory of the request is not kept
		if set, ok := m.totals.ruleSets.Add(id, m.config.MaxRuleSets, func() *setTotals { return newSetTotals(id, true) }); ok {
			return set
		}
	}
	return m.totals.other
}

// rule returns the totals of a rule.
func (m *Meter) rule(set *setTotals, id string) *RuleTotals {
	known := m.totals.rules.Entries()
	if rule := known[ruleKey{set.label, id}]; rule != nil {
		return rule
	}
	if set.named && len(known) < m.config.MaxRules && rules.ValidID(id) && id != Other {
		id = strings.Clone(id)
		if rule, ok := m.totals.rules.Add(ruleKey{set.label, id}, m.config.MaxRules, func() *RuleTotals {
			return &RuleTotals{RuleSet: set.label, Rule: id, named: true}
		}); ok {
			return rule
		}
	}
	return &set.rest
}

// RuleSetLabel returns the label of a rule set that exists.
func (m *Meter) RuleSetLabel(id string) string { return m.ruleSet(id).label }

// Outcomes that alerts and panels have rates of are counted from the first decision on: a rate
// that begins with the first rejection would miss it.
func counted(o Outcome, allowed bool, source store.Source) bool {
	switch o {
	case outcomeAllowed:
		return allowed && source == store.FromStore
	case outcomeLimited:
		return !allowed && source == store.FromStore
	case outcomeStoreFailure:
		return !allowed && source == noSource
	}
	return false
}

// ruleSetTotals passes the decisions by rule set since the start.
func (m *Meter) ruleSetTotals(to func(ruleSet string, o Outcome, allowed bool, source string, n uint64)) {
	each := func(s *setTotals) {
		for o := range s.counts {
			for allowed := range s.counts[o] {
				for source := range s.counts[o][allowed] {
					n := s.counts[o][allowed][source].Load()
					if n > 0 || s.named && counted(Outcome(o), allowed == 1, store.Source(source)) {
						to(s.label, Outcome(o), allowed == 1, sourceName(store.Source(source)), n)
					}
				}
			}
		}
	}
	for _, s := range m.totals.ruleSets.Entries() {
		each(s)
	}
	each(m.totals.unknown)
	each(m.totals.other)
}

// allRules returns the decisions by rule since the start.
func (m *Meter) allRules() []*RuleTotals {
	all := []*RuleTotals{&m.totals.other.rest}
	for _, s := range m.totals.ruleSets.Entries() {
		all = append(all, &s.rest)
	}
	for _, t := range m.totals.rules.Entries() {
		all = append(all, t)
	}
	return all
}
