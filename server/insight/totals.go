package insight

import (
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
	maxRuleSets, maxRules int
	ruleSets              snapshotmap.Map[string, *setTotals]
	rules                 snapshotmap.Map[ruleKey, *RuleTotals]
	unknown, other        *setTotals
}

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
	if d.Allowed && o <= outcomeNoRuleSet {
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

	named  bool
	counts [len(outcomeNames)]atomic.Uint64
}

// Named reports whether the label names one rule.
func (t *RuleTotals) Named() bool { return t.named }

func (t *RuleTotals) add(o Outcome, d *fluxgate.Decision) {
	t.counts[o].Add(1)
	if o == outcomeAllowed && d.Remaining <= d.Limit/5 {
		t.NearLimit.Add(1)
	}
}

// known returns the totals of a rule set that may not exist.
func (t *totals) known(id string) *setTotals {
	if set := t.ruleSets.Entries()[id]; set != nil {
		return set
	}
	return t.unknown
}

// ruleSet returns the totals of a rule set that exists.
func (t *totals) ruleSet(id string) *setTotals {
	known := t.ruleSets.Entries()
	if set := known[id]; set != nil {
		return set
	}
	if len(known) < t.maxRuleSets && rules.ValidID(id) && id != Unknown && id != Other {
		id = strings.Clone(id) // the memory of the request is not kept
		if set, ok := t.ruleSets.Add(id, t.maxRuleSets, func() *setTotals { return newSetTotals(id, true) }); ok {
			return set
		}
	}
	return t.other
}

// rule returns the totals of a rule.
func (t *totals) rule(set *setTotals, id string) *RuleTotals {
	known := t.rules.Entries()
	if rule := known[ruleKey{set.label, id}]; rule != nil {
		return rule
	}
	if set.named && len(known) < t.maxRules && rules.ValidID(id) && id != Other {
		id = strings.Clone(id)
		if rule, ok := t.rules.Add(ruleKey{set.label, id}, t.maxRules, func() *RuleTotals {
			return &RuleTotals{RuleSet: set.label, Rule: id, named: true}
		}); ok {
			return rule
		}
	}
	return &set.rest
}

// DefaultRuleSet returns the rule set of requests that name none.
func (r *Recorder) DefaultRuleSet() string { return r.config.RuleSet }

// RuleSetLabel returns the label of a rule set that exists.
func (r *Recorder) RuleSetLabel(id string) string { return r.totals.ruleSet(id).label }

// The usual outcomes are counted from the first decision on: a rate that begins with the first
// rejection would miss it.

// RuleSetTotals passes the decisions by rule set since the start.
func (r *Recorder) RuleSetTotals(to func(ruleSet string, o Outcome, allowed bool, source string, n uint64)) {
	each := func(s *setTotals) {
		for o := range s.counts {
			for allowed := range s.counts[o] {
				for source := range s.counts[o][allowed] {
					usual := o == int(outcomeAllowed) && allowed == 1 || o == int(outcomeLimited) && allowed == 0
					n := s.counts[o][allowed][source].Load()
					if n > 0 || usual && s.named && source == int(store.FromStore) {
						to(s.label, Outcome(o), allowed == 1, sourceName(store.Source(source)), n)
					}
				}
			}
		}
	}
	for _, s := range r.totals.ruleSets.Entries() {
		each(s)
	}
	each(r.totals.unknown)
	each(r.totals.other)
}

// RuleTotals returns the decisions by rule since the start.
func (r *Recorder) RuleTotals() []*RuleTotals {
	all := []*RuleTotals{&r.totals.other.rest}
	for _, s := range r.totals.ruleSets.Entries() {
		all = append(all, &s.rest)
	}
	for _, t := range r.totals.rules.Entries() {
		all = append(all, t)
	}
	return all
}

// Decisions passes how often the rule has decided, by outcome.
func (t *RuleTotals) Decisions(to func(o Outcome, n uint64)) {
	for o := range t.counts {
		if n := t.counts[o].Load(); n > 0 || t.named && Outcome(o) <= outcomeLimited {
			to(Outcome(o), n)
		}
	}
}
