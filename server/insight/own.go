package insight

import (
	"cmp"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/rules"
)

// own returns the report of this server, with so many rules and callers at most.
func (i *Insight) own(now time.Time, mostRules, callers int) *report {
	r := i.recorder
	limitedCallers, allowedCallers := r.callers(limitedList, callers, anyRule), r.callers(allowedList, callers, anyRule)
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := &report{
		Version: reportVersion, Name: i.config.Name, Build: i.config.Version, Start: i.start.Unix(), At: now.UnixMilli(),
		Draining: i.config.Draining != nil && i.config.Draining(), Understands: rules.Understood(),
		Total: r.series(&r.total),
	}
	for s := r.firstKnown(); s <= r.now; s++ {
		p50, p99 := quantiles(r.durationsAt(s-1), r.durationsAt(s))
		out.P50, out.P99 = append(out.P50, p50), append(out.P99, p99)
	}
	out.Steps = len(out.P50)
	out.Recent50, out.Recent99 = quantiles(r.durationsAt(r.now-recent), r.durationsAt(r.now))
	for id, h := range r.ruleSets.Entries() {
		out.RuleSets = append(out.RuleSets, reportedSet{id, r.series(h)})
	}
	slices.SortFunc(out.RuleSets, func(a, b reportedSet) int {
		return cmp.Or(cmp.Compare(b.sum(), a.sum()), cmp.Compare(a.ID, b.ID))
	})
	out.RuleSets = out.RuleSets[:min(len(out.RuleSets), reportedRuleSets)]
	out.Rules = r.busiest(mostRules)
	out.Limited, out.Allowed = r.reported(out, i, limitedCallers), r.reported(out, i, allowedCallers)
	i.addState(out, now)
	out.clean()
	return out
}

// addState adds the health, the revisions of the rules and the nodes of Redis.
func (i *Insight) addState(out *report, now time.Time) {
	if i.config.Health != nil {
		out.Status, out.Reason = i.config.Health()
	}
	if i.config.Revisions != nil {
		out.Revisions = map[string]int64{}
		for id, revision := range i.config.Revisions() {
			if len(out.Revisions) < maxRevisions {
				out.Revisions[id] = revision
			}
		}
	}
	if i.config.Nodes == nil {
		return
	}
	for _, n := range i.config.Nodes() {
		if len(out.Redis) == reportedNodes {
			break
		}
		node := reportedNode{Node: n.Node, Open: n.Open, Error: n.Error}
		if n.Since != nil {
			node.Age = max(0, int64(now.Sub(*n.Since)/time.Second))
		}
		out.Redis = append(out.Redis, node)
	}
}

// firstKnown returns the first step that is kept, of those since the start.
func (r *Recorder) firstKnown() int64 { return max(r.start, r.now-steps+1) }

// series returns the known steps of a history. The lock is held.
func (r *Recorder) series(h *history) (out reportedSeries) {
	first := r.firstKnown()
	for s := first; s <= r.now; s++ {
		out.set(int(r.now-first)+1, int(s-first), &h.steps[s%steps])
	}
	return out
}

// set sets the counts of one of n steps.
func (s *reportedSeries) set(n, i int, sum *counts) {
	for o, v := range sum {
		if v > 0 && s.Counts[o] == nil {
			s.Counts[o] = make([]uint32, n)
		}
		if v > 0 {
			s.Counts[o][i] = v
		}
	}
}

func (s *reportedSet) sum() (n uint64) {
	for _, series := range s.Counts {
		for _, v := range series {
			n += uint64(v)
		}
	}
	return n
}

// busiest returns the rules with the most requests of late. The lock is held.
func (r *Recorder) busiest(most int) []reportedRule {
	var all []reportedRule
	add := func(key ruleKey, from *rule) {
		of := reportedRule{RuleSet: key.ruleSet, Rule: key.rule, Shadow: from.shadow.Load()}
		for s := r.now - recent + 1; s <= r.now; s++ {
			for o, n := range from.steps[s%steps] {
				of.Counts[o] += uint64(n)
			}
		}
		if of.sum() > 0 {
			all = append(all, of)
		}
	}
	for key, of := range r.rules.Entries() {
		add(key, of)
	}
	add(ruleKey{meter.Other, meter.Other}, &r.overflow)
	slices.SortFunc(all, busiest)
	return all[:min(len(all), most)]
}

// rates returns the rates of a rule as the admin API shows them.
func (r *reportedRule) rates() admin.RuleRates {
	return admin.RuleRates{RuleSet: r.RuleSet, Rule: r.Rule, Rates: ratesOf(&r.Counts, recent)}
}

// ownCaller is a caller of this server.
type ownCaller struct {
	ruleKey
	caller
	shadow bool
}

// ownCallers are the callers of this server since a time.
type ownCallers struct {
	callers []ownCaller
	since   int64
}

// The lists of a rule.
func limitedList(r *rule) *callerList { return &r.limited }
func allowedList(r *rule) *callerList { return &r.allowed }

func anyRule(ruleKey) bool { return true }

// callers returns the callers with the most requests under the rules that are included.
func (r *Recorder) callers(list func(*rule) *callerList, most int, included func(ruleKey) bool) ownCallers {
	var out ownCallers
	for key, of := range r.rules.Entries() {
		if !included(key) {
			continue
		}
		for _, c := range list(of).top(most) {
			out.callers = append(out.callers, ownCaller{key, c, of.shadow.Load()})
		}
	}
	slices.SortFunc(out.callers, func(a, b ownCaller) int {
		return cmp.Or(cmp.Compare(b.count, a.count), slices.Compare(a.id[:], b.id[:]))
	})
	out.callers = out.callers[:min(most, len(out.callers))]
	r.mu.RLock()
	defer r.mu.RUnlock()
	out.since = r.opened[1]
	return out
}

// reported returns callers as the report has them, and adds their rules to it. The lock is
// held.
func (r *Recorder) reported(to *report, i *Insight, from ownCallers) reportedCallerLs {
	out := reportedCallerLs{Age: max(0, r.end()-from.since)}
	for _, c := range from.callers {
		at := slices.IndexFunc(to.Rules, func(of reportedRule) bool { return of.RuleSet == c.ruleSet && of.Rule == c.rule })
		if at < 0 {
			at = len(to.Rules)
			to.Rules = append(to.Rules, reportedRule{RuleSet: c.ruleSet, Rule: c.rule, Shadow: c.shadow})
		}
		out.Callers = append(out.Callers, reportedCaller{Rule: at, Key: i.show(&c), Count: c.count})
	}
	return out
}
