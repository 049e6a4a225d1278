package admin

import (
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
)

// Request is a request to be explained, as the check API takes it.
type Request = wire.Request

// Decision is the answer to a request, as the check API gives it.
type Decision = wire.Decision

// Band is one band of a decision or a bucket.
type Band = wire.Band

// Explanation says what is decided about a request, and why.
type Explanation struct {
	RuleSet  string    `json:"ruleSet" doc:"The rule set that decides."`
	Readings []string  `json:"readings,omitempty" nullable:"false" doc:"The ways in which routers may read the path, if there are several. Each is evaluated."`
	Rules    []Verdict `json:"rules" nullable:"false" doc:"Its rules in the order they are evaluated."`
	Decision *Decision `json:"decision,omitempty" doc:"What would be decided now. Nothing was taken."`
}

// Verdict says whether a rule applies to a request.
type Verdict struct {
	Rule     string   `json:"rule" doc:"The rule."`
	Applies  bool     `json:"applies" doc:"Whether it applies to the request."`
	Why      string   `json:"why,omitempty" doc:"Why it does not: disabled, path, method, host, excluded-path, header, attribute, ip, user, api-key, group, ended or reading."`
	Detail   string   `json:"detail,omitempty" doc:"The name of the header or attribute, or the rule that came first."`
	Action   string   `json:"action,omitempty" doc:"What the rule does if that is not to limit: allow or deny."`
	Shadow   bool     `json:"shadow,omitempty" doc:"The rule is only measured."`
	Priority int      `json:"priority" doc:"Higher first."`
	Group    string   `json:"group,omitempty" doc:"Its group."`
	Scope    string   `json:"limitScope,omitempty" doc:"Whose bucket it counts in."`
	Key      string   `json:"key,omitempty" doc:"The bucket of the request, as its salted hash and what binds it to the rule."`
	Identity []string `json:"identity,omitempty" nullable:"false" doc:"What of the request names the bucket."`
	Missing  []string `json:"missing,omitempty" nullable:"false" doc:"What should have named it, and is not there."`
}

// Bucket is what one caller has left under one rule.
type Bucket struct {
	Rule   string    `json:"rule" doc:"The rule."`
	Key    string    `json:"key" doc:"The bucket, as its salted hash and what binds it to the rule."`
	Status string    `json:"status" doc:"ok, rejected if it is in debt, or unavailable if the store could not be asked."`
	Time   time.Time `json:"time" doc:"When it was so, by the store's clock."`
	Bands  []Band    `json:"bands" nullable:"false" doc:"Its bands."`
}

// explained is an explanation as it travels.
func explained(engine *fluxgate.Engine, e *fluxgate.Explanation) *Explanation {
	all := verdicts(engine, e.RuleSet, e.Rules)
	if len(e.Readings) > 1 {
		all.Readings = e.Readings
	}
	decision := wire.From(&e.Decision)
	all.Decision = &decision
	return all
}

func verdicts(engine *fluxgate.Engine, set *fluxgate.RuleSet, rules []fluxgate.Verdict) *Explanation {
	all := &Explanation{RuleSet: set.ID(), Rules: make([]Verdict, len(rules))}
	for i := range rules {
		v := &rules[i]
		to := Verdict{
			Rule: v.Rule.ID, Applies: v.Applies, Why: string(v.Why), Detail: v.Detail, Shadow: v.Rule.Mode == fluxgate.ModeShadow,
			Priority: v.Rule.Priority, Group: v.Rule.Group, Scope: string(v.Rule.Scope), Key: engine.ShowKey(v.Key), Identity: v.Identity, Missing: v.Missing,
		}
		if a := v.Rule.Action; a == fluxgate.ActionAllow || a == fluxgate.ActionDeny {
			to.Action, to.Scope = string(a), ""
		}
		all.Rules[i] = to
	}
	return all
}
