package insight

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/admin"
)

// Callers returns the recent heaviest callers.
func (i *Insight) Callers(ctx context.Context, q CallersQuery, view View) *admin.Callers {
	q.Limit, q.Outcome = cmp.Or(q.Limit, reportedCallers), cmp.Or(q.Outcome, admin.CallersLimited)
	list, reported := limitedList, func(r *report) *reportedCallerLs { return &r.Limited }
	if q.Outcome == admin.CallersAllowed {
		list, reported = allowedList, func(r *report) *reportedCallerLs { return &r.Allowed }
	}
	now := time.Now()
	others, problem := i.others(ctx)
	m := merger{q: &q, view: &view, callers: map[callerKey]*admin.Caller{}}
	own := i.recorder.callers(list, mostCallers, m.includes)
	for j := range own.callers {
		c := &own.callers[j]
		shown := &admin.Caller{RuleSet: c.ruleSet, Rule: c.rule, Key: i.show(c), Shadow: c.shadow, Count: c.count}
		if view.Identities(c.ruleSet) {
			shown.Identity = c.identity
		}
		m.add(shown)
	}
	since := own.since
	for _, r := range others {
		l := reported(r)
		for _, c := range l.Callers {
			of := &r.Rules[c.Rule]
			m.add(&admin.Caller{RuleSet: of.RuleSet, Rule: of.Rule, Key: c.Key, Shadow: of.Shadow, Count: c.Count})
		}
		since = min(since, now.Unix()-l.Age)
	}
	out := &admin.Callers{Outcome: q.Outcome, Since: time.Unix(since, 0).UTC(), Callers: m.top(), Problem: problem}
	for j := range out.Callers {
		c := &out.Callers[j]
		c.PerSecond = math.Round(10*float64(c.Count)/max(1, now.Sub(out.Since).Seconds())) / 10
	}
	return out
}

// merger adds up the callers of several servers.
type merger struct {
	q       *CallersQuery
	view    *View
	callers map[callerKey]*admin.Caller
}

// callerKey is the key of a caller and its rule: a report may name any rule.
type callerKey struct {
	ruleKey
	key string
}

// includes reports whether the callers of a rule were asked for and may be seen.
func (m *merger) includes(of ruleKey) bool {
	return (m.q.RuleSet == "" || m.q.RuleSet == of.ruleSet) && (m.q.Rule == "" || m.q.Rule == of.rule) &&
		m.view.rule(of.ruleSet)
}

func (m *merger) add(c *admin.Caller) {
	key := callerKey{ruleKey{c.RuleSet, c.Rule}, c.Key}
	if !m.includes(key.ruleKey) {
		return
	}
	sum := m.callers[key]
	if sum == nil {
		m.callers[key] = c
		return
	}
	sum.Shadow = sum.Shadow && c.Shadow // while the rule is changed, servers may differ
	sum.Count += c.Count
}

// top returns the callers with the most requests.
func (m *merger) top() []admin.Caller {
	all := make([]admin.Caller, 0, len(m.callers))
	for _, c := range m.callers {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b admin.Caller) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key)) })
	return all[:min(len(all), m.q.Limit)]
}
