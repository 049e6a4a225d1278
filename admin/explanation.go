package admin

import (
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
)

// Request is a request to explain, as in the check API.
type Request = wire.Request

// Decision is the answer to a request, as in the check API.
type Decision = wire.Decision

// Band is one limit (band) of a decision or a bucket.
type Band = wire.Band

// Explanation is the decision on a request, and its reasons.
type Explanation struct {
	RuleSet  string    `json:"ruleSet" doc:"The rule set that decides."`
	Readings []string  `json:"readings,omitempty" nullable:"false" doc:"How routers may read the path, if in several ways."`
	Rules    []Verdict `json:"rules" nullable:"false" doc:"Its rules in the order they are evaluated."`
	Decision *Decision `json:"decision,omitempty" doc:"The decision now. No tokens were taken."`
}

// Verdict is whether a rule applies to a request.
type Verdict struct {
	Rule     string   `json:"rule" doc:"The rule."`
	Applies  bool     `json:"applies" doc:"Whether it applies to the request."`
	Why      string   `json:"why,omitempty" doc:"Why it does not: disabled, expired, ended, group, reading, or a condition such as host."`
	Detail   string   `json:"detail,omitempty" doc:"The name of the header or attribute, or the rule that came first."`
	Action   string   `json:"action,omitempty" doc:"The action of the rule if it is not limit: allow or deny."`
	Shadow   bool     `json:"shadow,omitempty" doc:"The rule is in shadow mode."`
	Priority int      `json:"priority" doc:"Higher first."`
	Group    string   `json:"group,omitempty" doc:"Its group."`
	Scope    string   `json:"limitScope,omitempty" doc:"Whose bucket it counts in."`
	Key      string   `json:"key,omitempty" doc:"The key of the bucket: a salted hash, bound to the rule."`
	Identity []string `json:"identity,omitempty" nullable:"false" doc:"The parts of the request that name the bucket."`
	Missing  []string `json:"missing,omitempty" nullable:"false" doc:"The parts that are missing in the request."`
	Measure  string   `json:"measure,omitempty" doc:"What it counts. Absent for requests."`
	Cost     int64    `json:"cost,omitempty" doc:"What the request asks of it. Absent for 1, and where only the state is asked for."`

	Override *OverrideStatus `json:"override,omitempty" doc:"The override that applies to the caller."`

	NotForProxies bool `json:"notForProxies,omitempty" doc:"Concurrent requests of proxies are not limited by it."`

	FromMemory string `json:"fromMemory,omitempty" doc:"Which answers may come from memory, and why others may not. Absent if none may."`
}

// OverrideStatus is the override that applies to a caller.
type OverrideStatus struct {
	Times rules.Times          `json:"times,omitempty" type:"number" doc:"What capacities and refills are multiplied with."`
	Bands []rules.BandDocument `json:"bands,omitempty" nullable:"false" doc:"Or its own bands."`
	Until *time.Time           `json:"until,omitempty" doc:"When it ends. Absent for never."`
}

func overrideStatus(o *fluxgate.OverrideStatus) *OverrideStatus {
	if o == nil {
		return nil
	}
	doc := (&rules.Override{Times: o.Times, Bands: o.Bands, Until: o.Until}).Document()
	return &OverrideStatus{doc.Times, doc.Bands, doc.Until}
}

// Bucket is the state of one caller's bucket under one rule.
type Bucket struct {
	Rule   string    `json:"rule" doc:"The rule."`
	Key    string    `json:"key" doc:"The key of the bucket: a salted hash, bound to the rule."`
	Status string    `json:"status" doc:"ok, rejected if it is in debt, or unavailable if the store does not answer."`
	Time   time.Time `json:"time" doc:"When it was read, by the store's clock."`
	Bands  []Band    `json:"bands" nullable:"false" doc:"Its bands."`
}

// explained returns an explanation as JSON.
func explained(engine *fluxgate.Engine, e *fluxgate.Explanation) *Explanation {
	decision := wire.From(&e.Decision)
	all := &Explanation{RuleSet: e.RuleSet.ID(), Rules: make([]Verdict, len(e.Rules)), Decision: &decision}
	if len(e.Readings) > 1 {
		all.Readings = e.Readings
	}
	for i := range e.Rules {
		v := &e.Rules[i]
		to := Verdict{
			Rule: v.Rule.ID, Applies: v.Applies, Why: string(v.Why), Detail: v.Detail, Shadow: v.Rule.Mode == rules.ModeShadow,
			Priority: v.Rule.Priority, Group: v.Rule.Group, Scope: string(v.Rule.Scope),
			Key: engine.ShowKey(v.Key), Identity: v.Identity, Missing: v.Missing, FromMemory: v.FromMemory,
			Override: overrideStatus(v.Override), NotForProxies: v.EndNeeded,
		}
		if a := v.Rule.Action; a == rules.ActionAllow || a == rules.ActionDeny {
			to.Action, to.Scope = string(a), ""
		} else if m := v.Rule.Measure(); m != rules.MeasureRequests {
			to.Measure = m
		}
		if v.Cost > 1 {
			to.Cost = v.Cost
		}
		all.Rules[i] = to
	}
	return all
}
